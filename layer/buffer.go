package layer

import (
	"io"
	"sync"
)

// BufferSize is the size of the buffers of every copy: with 4 KiB a copy costs
// twice the CPU, beyond 128 KiB nothing is gained.
const BufferSize = 128 << 10

// A Buffer is memory for copying, out of a pool.
type Buffer [BufferSize]byte

//nolint:gochecknoglobals // a pool has no state that a caller could see
var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// NewBuffer returns a Buffer with any content. Free gives it back.
func NewBuffer() *Buffer { return buffers.Get().(*Buffer) }

// Free returns b to the pool; b must not be used afterwards.
func (b *Buffer) Free() { buffers.Put(b) }

// Copy is io.Copy with a pooled buffer. It passes by os.File's ReadFrom, which
// would allocate a buffer for each file.
func Copy(w io.Writer, r io.Reader) (int64, error) {
	buf := NewBuffer()
	defer buf.Free()
	var total int64
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			m, werr := w.Write(buf[:n])
			total += int64(m)
			if werr != nil {
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Fill reads until buf is full or r fails. Unlike io.ReadFull it returns the
// error of r as it is: io.ErrUnexpectedEOF is a cut connection, io.EOF the end.
func Fill(r io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
