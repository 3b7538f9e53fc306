package build

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

// A statCache knows the hashes of the files of one build context by what stat
// says of them, as git's index does, so that an unchanged file is not read.
type statCache struct {
	file string

	mu    sync.Mutex
	known map[string]statRecord
	dirty bool
}

// A statRecord is what stat said of a file when its content was hashed.
type statRecord struct {
	Size, Mtime, Ctime int64
	Inode, Device      uint64
	Hashed             int64 // when the hashing began; in nanoseconds, as the other times
	Sum                [sha256.Size]byte
}

// racy is how long before its hashing a file must have been changed to be
// trusted: file systems count time in steps of some milliseconds, and a second
// change in the same step would not show.
const racy = 50 * time.Millisecond

const statMagic = "sealer stat cache 1\n"

// openStatCache reads the cache of a context. One that is missing or broken is
// empty.
func openStatCache(cacheDir, contextDir string) *statCache {
	c := &statCache{known: map[string]statRecord{}}
	if abs, err := filepath.Abs(contextDir); err == nil {
		c.file = filepath.Join(cacheDir, "stat", digest.FromString(abs).Encoded()[:32])
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return c
	}
	if known, err := parseStats(b); err == nil {
		c.known = known
	}
	return c
}

func parseStats(b []byte) (map[string]statRecord, error) {
	body, ok := bytes.CutPrefix(b, []byte(statMagic))
	if !ok || len(body) < sha256.Size {
		return nil, errors.New("no stat cache")
	}
	body, sum := body[:len(body)-sha256.Size], body[len(body)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, errors.New("a broken stat cache")
	}
	r := bytes.NewReader(body)
	known := map[string]statRecord{}
	for {
		n, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return known, nil
		}
		if err != nil || n > uint64(r.Len()) {
			return nil, errors.New("a broken stat cache")
		}
		name := make([]byte, n)
		var rec statRecord
		if _, err := io.ReadFull(r, name); err != nil {
			return nil, err
		}
		if err := rec.read(r); err != nil {
			return nil, err
		}
		known[string(name)] = rec
	}
}

const recordSize = 6*8 + sha256.Size

func (s *statRecord) read(r io.Reader) error {
	var b [recordSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	for i, p := range []*int64{&s.Size, &s.Mtime, &s.Ctime, &s.Hashed} {
		*p = int64(binary.LittleEndian.Uint64(b[i*8:]))
	}
	s.Inode, s.Device = binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])
	copy(s.Sum[:], b[48:])
	return nil
}

func (s *statRecord) append(b []byte) []byte {
	for _, v := range []int64{s.Size, s.Mtime, s.Ctime, s.Hashed} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = binary.LittleEndian.AppendUint64(b, s.Inode)
	b = binary.LittleEndian.AppendUint64(b, s.Device)
	return append(b, s.Sum[:]...)
}

// record returns what stat says of e, without a hash.
func (e *entry) record() (statRecord, bool) {
	if e.info == nil {
		return statRecord{}, false
	}
	st, ok := e.info.Sys().(*syscall.Stat_t)
	if !ok {
		return statRecord{}, false
	}
	return statRecord{
		Size: e.info.Size(), Mtime: e.info.ModTime().UnixNano(), Ctime: changeTime(st),
		Inode: st.Ino, Device: uint64(st.Dev), //nolint:unconvert // it is smaller elsewhere
	}, true
}

// sum returns the hash of a file that has not changed since it was hashed.
func (c *statCache) sum(e *entry) ([]byte, bool) {
	now, ok := e.record()
	if !ok {
		return nil, false
	}
	c.mu.Lock()
	was, ok := c.known[e.path]
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	sum, hashed := was.Sum, was.Hashed
	was.Sum, was.Hashed = now.Sum, now.Hashed
	if was != now || now.Ctime > hashed-int64(racy) || now.Mtime > hashed-int64(racy) {
		return nil, false
	}
	return sum[:], true
}

// put records the hash of e, whose hashing began at begun.
func (c *statCache) put(e *entry, sum []byte, begun time.Time) {
	rec, ok := e.record()
	if !ok {
		return
	}
	rec.Hashed = begun.UnixNano()
	copy(rec.Sum[:], sum)
	c.mu.Lock()
	c.known[e.path] = rec
	c.dirty = true
	c.mu.Unlock()
}

// save writes the cache when something was learnt.
func (c *statCache) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty || c.file == "" {
		return nil
	}
	var b bytes.Buffer
	b.WriteString(statMagic)
	var rec []byte
	for _, name := range sortedKeys(c.known) {
		r := c.known[name]
		rec = binary.AppendUvarint(rec[:0], uint64(len(name)))
		rec = append(rec, name...)
		b.Write(r.append(rec))
	}
	sum := sha256.Sum256(b.Bytes()[len(statMagic):])
	b.Write(sum[:])
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	c.dirty = false
	return replaceFile(c.file, b.Bytes())
}

// hashFile reads the content of e and returns its hash.
func hashFile(e *entry) ([]byte, error) {
	if e.root == nil {
		sum := sha256.Sum256(e.data)
		return sum[:], nil
	}
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, plain(err))
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, bufio.NewReaderSize(f, 128<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, plain(err))
	}
	if n != e.size {
		return nil, fmt.Errorf("%s: %w", e.path, errChanged)
	}
	return h.Sum(nil), nil
}
