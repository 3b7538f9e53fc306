package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ReadOptions are the options of Read.
type ReadOptions struct {
	// Stdin is read where no name is given, or "-".
	Stdin io.Reader
	// Keys are names of files with age secret keys, for an encrypted archive.
	Keys []string
}

// Read calls use with the tar of an archive, which may still be compressed. names
// are one of: a file; some or all of its parts; the file of their checksums; the
// directory where that stands; a directory that is an OCI image layout; nothing for
// Stdin. use must read to the end, where the checks of the last part and of the
// encryption are, and keep nothing when it fails.
//
// Missing parts are all named before use is called; the error wraps ErrMissing.
// Where use fails because a part is damaged, the error names the part, and wraps
// ErrDamaged.
func Read(names []string, o ReadOptions, use func(io.Reader) error) (err error) {
	in, err := open(names, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	plain, err := decrypt(in, o.Keys)
	if err == nil {
		err = use(plain)
	}
	if err == nil {
		return nil
	}
	if p, ok := in.(*parts); ok {
		if damage := p.damage(); damage != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w (%w)", damage, err)
		}
	}
	return err
}

// open finds the archive that names mean.
func open(names []string, o ReadOptions) (io.ReadCloser, error) {
	if len(names) == 0 || len(names) == 1 && names[0] == "-" {
		return io.NopCloser(o.Stdin), nil
	}
	if len(names) > 1 || partPattern.MatchString(names[0]) {
		return openParts(names)
	}
	name := names[0]
	if strings.HasSuffix(name, sumsSuffix) {
		return openSums(name, nil)
	}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return os.Open(name)
	}
	if _, err := os.Stat(filepath.Join(name, ocispec.ImageIndexFile)); err == nil {
		return openLayout(name)
	}
	found, err := filepath.Glob(filepath.Join(escapeGlob(name), "*"+sumsSuffix))
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("%w: directory %s has no file of checksums, NAME%s, and is no OCI image layout", ErrInvalid, name, sumsSuffix)
	case len(found) > 1:
		return nil, fmt.Errorf("%w: directory %s has %d files of checksums: name one of %s", ErrInvalid, name, len(found), strings.Join(found, ", "))
	}
	return openSums(found[0], nil)
}

// escapeGlob makes name mean itself to filepath.Glob.
func escapeGlob(name string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(name)
}

// openParts opens the parts names, of one archive, in the order of their numbers.
// They may lie in several directories; parts that are not named are looked for
// beside the file of checksums.
func openParts(names []string) (io.ReadCloser, error) {
	given := map[string]string{} // name of a part -> its path
	base := ""
	for _, n := range names {
		m := partPattern.FindStringSubmatch(filepath.Base(n))
		if m == nil || base != "" && m[1] != base {
			return nil, fmt.Errorf("%w: %s is no part of the same archive as %s: want NAME.part0001, NAME.part0002, …", ErrInvalid, n, names[0])
		}
		base = m[1]
		given[filepath.Base(n)] = n
	}
	for _, n := range names {
		list := filepath.Join(filepath.Dir(n), base+sumsSuffix)
		if _, err := os.Stat(list); err == nil {
			return openSums(list, given)
		}
	}
	p := &parts{}
	for i := range len(given) {
		name := partName(base, i+1)
		path, ok := given[name]
		if !ok {
			return nil, fmt.Errorf("part %s: %w", name, ErrMissing)
		}
		p.list = append(p.list, sum{name: name})
		p.paths = append(p.paths, path)
	}
	return p, p.present()
}

// openSums opens the parts that the file list names, at given or beside it.
func openSums(list string, given map[string]string) (io.ReadCloser, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSums+1))
	if err != nil {
		return nil, err
	}
	p := &parts{}
	if p.list, err = parseSums(b); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	for _, s := range p.list {
		path, ok := given[s.name]
		if !ok {
			path = filepath.Join(filepath.Dir(list), s.name)
		}
		p.paths = append(p.paths, path)
	}
	return p, p.present()
}

// parts reads files one after the other, and checks each when it ends.
type parts struct {
	list  []sum // without a digest where there is no file of checksums
	paths []string

	mu   sync.Mutex // a decompressor may read while damage is asked for
	i    int        // the part that is read
	f    *os.File
	h    hash.Hash
	fail error
}

// present reports all parts that are not there.
func (p *parts) present() error {
	var missing []string
	for i, path := range p.paths {
		fi, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, p.list[i].name)
		case err != nil:
			return err
		case !fi.Mode().IsRegular():
			return fmt.Errorf("part %s: %w: it is no regular file", path, ErrInvalid)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if more := len(missing) - 10; more > 0 {
		missing = append(slices.Clip(missing[:10]), fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w of %d parts: %s", ErrMissing, len(p.paths), strings.Join(missing, ", "))
}

// Read implements io.Reader.
func (p *parts) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.fail == nil {
		n, err := p.read(b)
		if err != nil {
			p.fail = err
		}
		if n > 0 || len(b) == 0 {
			return n, nil
		}
	}
	return 0, p.fail
}

// read reads from the part i, and goes to the next where it ends.
func (p *parts) read(b []byte) (int, error) {
	if p.f == nil {
		if p.i == len(p.paths) {
			return 0, io.EOF
		}
		var err error
		if p.f, err = os.Open(p.paths[p.i]); err != nil {
			return 0, err
		}
		p.h = sha256.New()
	}
	n, err := p.f.Read(b)
	p.h.Write(b[:n])
	if err != io.EOF {
		return n, err
	}
	err = p.check()
	cerr := p.f.Close()
	p.f = nil
	p.i++
	return n, errors.Join(err, cerr)
}

// check compares the part i, which was read to its end.
func (p *parts) check() error {
	want := p.list[p.i].digest
	if got := digest.NewDigest(digest.SHA256, p.h); want != "" && got != want {
		return fmt.Errorf("part %s is %w: its SHA-256 is %s, want %s", p.paths[p.i], ErrDamaged, got.Encoded(), want.Encoded())
	}
	return nil
}

// damage reads the rest of the part that was being read and compares it. The parts
// before it are good. Nothing can be read afterwards.
func (p *parts) damage() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.fail, ErrDamaged) {
		return p.fail
	}
	p.fail = fs.ErrClosed
	if p.f == nil {
		return nil
	}
	if _, err := io.Copy(p.h, p.f); err != nil {
		return fmt.Errorf("part %s: %w", p.paths[p.i], err)
	}
	return p.check()
}

// Close implements io.Closer.
func (p *parts) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fs.ErrClosed
	if p.f == nil {
		return nil
	}
	f := p.f
	p.f = nil
	return f.Close()
}
