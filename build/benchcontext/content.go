package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// A content writes the bytes of one file.
type content func(w io.Writer) (int64, error)

// write makes one file.
func (m *maker) write(name string, c content) (err error) {
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 256<<10)
	if _, err := c(w); err != nil {
		return err
	}
	return w.Flush()
}

// cut writes size bytes in runs of least to most bytes from anywhere in source:
// they compress as source does, and no two files are equal.
func (m *maker) cut(source []byte, size int64, least, most int) content {
	return func(w io.Writer) (n int64, err error) {
		for n < size && err == nil {
			run := min(size-n, int64(least+m.rand.IntN(most-least)))
			at := m.rand.IntN(len(source) - most)
			_, err = w.Write(source[at : at+int(run)])
			n += run
		}
		return n, err
	}
}

// noise writes bytes that do not compress.
func (m *maker) noise(size int64) content {
	return func(w io.Writer) (int64, error) { return io.CopyN(w, m.chacha, size) }
}
