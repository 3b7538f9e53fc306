package layer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// misses is how many pieces in a row must differ until no more are compared:
// all that follow are at another place then.
const misses = 8

// frames are the zstd frames of a blob that is probably much like the one that
// is made, each of one piece; RFC 8878, 3.1.1.
type frames struct {
	f       *os.File // nil when there are none, or no more
	r       *bufio.Reader
	decoder *zstd.Decoder
	missed  atomic.Int32
}

// openFrames opens the frames of a blob.
func openFrames(f *os.File) (*frames, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(pieceSize))
	return &frames{f: f, r: bufio.NewReaderSize(f, BufferSize), decoder: d}, err
}

// close ends the reading of frames; those that were read stay good.
func (f *frames) close() {
	if f != nil && f.f != nil {
		_ = f.f.Close()
		f.f = nil
	}
}

// next reads the frame of the next piece into buf, nothing when there is none.
func (f *frames) next(buf []byte) []byte {
	if f == nil || f.f == nil {
		return buf[:0]
	}
	buf, err := f.read(buf)
	if err != nil || f.missed.Load() >= misses {
		f.close()
		return buf[:0]
	}
	return buf
}

// errFrame says that a blob is not made of frames of pieces.
var errFrame = errors.New("not a frame of one piece")

func (f *frames) read(buf []byte) ([]byte, error) {
	const most = pieceSize + pieceSize/64 // a piece that does not shrink is stored, with headers
	var h zstd.Header
	head, err := f.r.Peek(zstd.HeaderMaxSize)
	if len(head) == 0 {
		return buf, err
	}
	if err := h.Decode(head); err != nil || h.Skippable || h.HasCheckSum || !h.HasFCS || h.FrameContentSize > pieceSize {
		return buf, errFrame
	}
	buf, err = f.take(buf, h.HeaderSize)
	for last := false; !last && err == nil; {
		at := len(buf)
		if buf, err = f.take(buf, 3); err != nil {
			break
		}
		block := uint32(buf[at]) | uint32(buf[at+1])<<8 | uint32(buf[at+2])<<16
		last = block&1 != 0
		size := int(block >> 3)
		if block>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		if len(buf)+size > most {
			return buf, errFrame
		}
		buf, err = f.take(buf, size)
	}
	return buf, err
}

func (f *frames) take(buf []byte, n int) ([]byte, error) {
	at := len(buf)
	buf = slices.Grow(buf, n)[:at+n]
	_, err := io.ReadFull(f.r, buf[at:])
	return buf, err
}

// holds reports whether frame is piece, compressed. plain is memory for the bytes it
// unpacks to, and is returned. To unpack costs far less than to compress.
func (f *frames) holds(frame, piece, plain []byte) (bool, []byte) {
	if len(frame) == 0 {
		return false, plain
	}
	plain, err := f.decoder.DecodeAll(frame, plain[:0])
	if err != nil || !bytes.Equal(plain, piece) {
		f.missed.Add(1)
		return false, plain
	}
	f.missed.Store(0)
	return true, plain
}

// An equalFile is a file of another layer that may have the content of the file
// that is unpacked.
type equalFile struct {
	f    *os.File // nil if there is none
	n    int64    // so many bytes of r equal the file's first
	tail []byte   // the bytes read of r after these, which differ
}

// equalFile opens the file name of the layer u.like if mode, owner, time and size are
// those of h, and reads r as long as the content is equal. The caller closes
// its file.
func (u *unpacker) equalFile(name string, h *tar.Header, r io.Reader) (t equalFile, err error) {
	if u.like == nil || h.Size == 0 || hasAttributes(h) {
		return t, nil
	}
	f, err := u.like.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return t, nil
	}
	fi, err := f.Stat()
	attributes, aerr := Attributes(f)
	if err != nil || aerr != nil || len(attributes) > 0 || fi.Mode() != u.mode(h) || fi.Size() != h.Size ||
		!fi.ModTime().Equal(h.ModTime) || u.own && !owned(fi, h.Uid, h.Gid) {
		return t, f.Close()
	}
	t.f = f
	mine, its := NewBuffer(), NewBuffer()
	defer mine.Free()
	defer its.Free()
	for t.n < h.Size {
		n, err := Fill(r, mine[:min(BufferSize, h.Size-t.n)])
		m, _ := io.ReadFull(f, its[:n])
		if !bytes.Equal(mine[:n], its[:m]) {
			t.tail = bytes.Clone(mine[:n])
			return t, nil // if r failed, it does so again
		}
		t.n += int64(n)
		if err != nil {
			break
		}
	}
	return t, nil
}

// copy writes the bytes that t has read, and the rest of r, to f.
func (t equalFile) copy(f *os.File, r io.Reader) (int64, error) {
	if t.f == nil {
		return Copy(f, r)
	}
	return Copy(f, io.MultiReader(io.NewSectionReader(t.f, 0, t.n), bytes.NewReader(t.tail), r))
}

// hasAttributes reports whether h gives its file extended attributes.
func hasAttributes(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, AttributeRecord) {
			return true
		}
	}
	return false
}
