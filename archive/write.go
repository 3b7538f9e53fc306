package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/layer"
)

// filePerm are the permissions of archives: programs and configuration may be
// secret.
const filePerm = 0o600

// WriteOptions are the options of Create and Stream. The zero value writes the
// content as it is, to one file.
type WriteOptions struct {
	// Compress compresses with zstd.
	Compress bool
	// Recipients can decrypt the archive: age public keys ("age1…"), or names of
	// files of them. None does not encrypt.
	Recipients []string
	// Split is the most bytes of a part; 0 writes one file.
	Split int64
}

// A File is a file that was written.
type File struct {
	Name   string        `json:"name"`
	Size   int64         `json:"size"`   // bytes
	Digest digest.Digest `json:"digest"` // SHA-256
}

// Create writes the content that write writes to the file name or, with
// WriteOptions.Split, to name.part0001 and so on, and their checksums to
// name.sha256, in the form of sha256sum. It returns the files, checksums last. No
// file has its name before all of them are on the disk.
func Create(name string, o WriteOptions, write func(io.Writer) error) (_ []File, err error) {
	s := &sink{base: name, limit: o.Split}
	defer func() { err = errors.Join(err, s.discard()) }()
	if err := wrap(s, o, write); err != nil {
		return nil, err
	}
	return s.finish()
}

// Stream writes the content to w, as one file without a name.
func Stream(w io.Writer, o WriteOptions, write func(io.Writer) error) (File, error) {
	c := &counter{w: w, h: sha256.New()}
	if err := wrap(c, o, write); err != nil {
		return File{}, err
	}
	return File{Size: c.n, Digest: digest.NewDigest(digest.SHA256, c.h)}, nil
}

// wrap lets write write to w through the compression and the encryption of o.
func wrap(w io.Writer, o WriteOptions, write func(io.Writer) error) error {
	var closers []io.Closer // the outermost first
	if len(o.Recipients) > 0 {
		e, err := encrypt(w, o.Recipients)
		if err != nil {
			return err
		}
		w, closers = e, append(closers, e)
	}
	if o.Compress {
		z, err := layer.Compress(w)
		if err != nil {
			return err
		}
		w, closers = z, append(closers, z)
	}
	err := write(w)
	for _, c := range slices.Backward(closers) {
		if cerr := c.Close(); err == nil { // after a failed write the others fail too
			err = cerr
		}
	}
	return err
}

// A counter counts and hashes the bytes that it writes.
type counter struct {
	w io.Writer
	h hash.Hash
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.h.Write(p[:n])
	c.n += int64(n)
	return n, err
}

// A sink is a file, or its parts.
type sink struct {
	base  string
	limit int64 // of a part; 0 has none
	files []*pending
	sums  []*counter
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 || len(s.files) == 0 {
		if len(s.files) == 0 || s.limit > 0 && s.sums[len(s.sums)-1].n == s.limit {
			if err := s.next(); err != nil {
				return total, err
			}
		}
		last := s.sums[len(s.sums)-1]
		piece := p
		if s.limit > 0 {
			piece = p[:min(int64(len(p)), s.limit-last.n)]
		}
		n, err := last.Write(piece)
		total += n
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

// next begins the next file.
func (s *sink) next() error {
	name := s.base
	if s.limit > 0 {
		if len(s.files) == maxParts {
			return fmt.Errorf("write %s: more than %d parts of %d bytes: choose larger ones", s.base, maxParts, s.limit)
		}
		name = partName(s.base, len(s.files)+1)
	}
	f, err := create(name)
	if err != nil {
		return err
	}
	if s.limit > 0 && f.direct {
		return errors.Join(fmt.Errorf("write %s: it is no regular file, and parts need one", name), f.discard())
	}
	s.files = append(s.files, f)
	s.sums = append(s.sums, &counter{w: f, h: sha256.New()})
	return nil
}

// finish gives the files their names, the checksums last.
func (s *sink) finish() ([]File, error) {
	if _, err := s.Write(nil); err != nil { // an archive of no bytes is a file too
		return nil, err
	}
	var out []File
	var sums []sum
	for i, f := range s.files {
		if err := f.settle(filePerm); err != nil {
			return nil, err
		}
		name := s.base
		if s.limit > 0 {
			name = partName(s.base, i+1)
		}
		d := digest.NewDigest(digest.SHA256, s.sums[i].h)
		out = append(out, File{name, s.sums[i].n, d})
		sums = append(sums, sum{filepath.Base(name), d})
	}
	for _, f := range s.files {
		if err := f.publish(); err != nil {
			return nil, err
		}
	}
	if s.limit == 0 {
		return out, nil
	}
	b := formatSums(sums)
	name := s.base + sumsSuffix
	if err := WriteFile(name, filePerm, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return nil, err
	}
	return append(out, File{name, int64(len(b)), digest.FromBytes(b)}), nil
}

// discard removes the files that were not published.
func (s *sink) discard() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.discard())
	}
	return errors.Join(errs...)
}
