package store

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// wanted is what a layer's tar says of one path, the last entry counting.
type wanted struct {
	mode   fs.FileMode   // type and permission bits
	digest digest.Digest // of a file
	link   string        // of a symbolic link, its target
}

// compareLayer compares the unpacked files of a rootfs layer with its blob.
func (s *Store) compareLayer(ctx context.Context, l Layer) ([]Fault, error) {
	if !s.hasLayer(l.ID) {
		return []Fault{{What: "layer " + l.ID.String(), Err: ErrNotFound}}, nil
	}
	want, err := s.wantedFiles(ctx, l)
	if err != nil {
		return []Fault{{What: "layer " + l.ID.String(), Err: err}}, nil
	}
	root, err := os.OpenRoot(s.LayerDir(l.ID))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var faults []Fault
	fault := func(p string, err error) {
		faults = append(faults, Fault{What: fmt.Sprintf("layer %s: %s", l.ID, p), Err: err})
	}
	seen := map[string]bool{}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fault(p, err)
			return nil
		}
		w, ok := want[p]
		seen[p] = true
		switch {
		case ok:
			if err := compareFile(root, p, d, w); err != nil {
				fault(p, err)
			}
		case p != "." && !d.IsDir(): // directories need not be listed
			fault(p, fmt.Errorf("%w: it is not in the layer", ErrMismatch))
		}
		return nil
	})
	for _, p := range sortedKeys(want) {
		if !seen[p] {
			fault(p, fs.ErrNotExist)
		}
	}
	return faults, err
}

func sortedKeys(m map[string]wanted) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// compareFile compares what is at p.
func compareFile(root *os.Root, p string, d fs.DirEntry, w wanted) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	if fi.Mode().Type() != w.mode.Type() {
		return fmt.Errorf("%w: it is a %s, want %s", ErrMismatch, fi.Mode().Type(), w.mode.Type())
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		if got, err := root.Readlink(p); err != nil || got != w.link {
			return errors.Join(err, fmt.Errorf("%w: it points at %q, want %q", ErrMismatch, got, w.link))
		}
		return nil
	case os.Geteuid() == 0 && fi.Mode().Perm() != w.mode.Perm():
		return fmt.Errorf("%w: mode %o, want %o", ErrMismatch, fi.Mode().Perm(), w.mode.Perm())
	case !fi.Mode().IsRegular():
		return nil
	}
	f, err := root.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := copyBuffer(h, f); err != nil {
		return err
	}
	if got := digest.NewDigestFromBytes(digest.SHA256, h.Sum(nil)); got != w.digest {
		return fmt.Errorf("%w: its content differs", ErrMismatch)
	}
	return nil
}

// wantedFiles reads the blob of a rootfs layer.
func (s *Store) wantedFiles(ctx context.Context, l Layer) (map[string]wanted, error) {
	f, err := s.OpenBlob(ctx, l.Descriptors[0].Digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Decompress(f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	want := map[string]wanted{}
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := tr.Next()
		if err == io.EOF {
			return want, nil
		}
		if err != nil {
			return nil, tarError(err)
		}
		name, err := localName(h.Name)
		if err != nil {
			return nil, err
		}
		if base := path.Base(name); strings.HasPrefix(base, whiteoutPrefix) {
			if base == whiteoutOpaque || !strings.HasPrefix(base, whiteoutMeta) {
				want[name] = wanted{mode: 0o644, digest: digest.FromString("")}
			}
			continue
		}
		if err := wantEntry(want, name, h, tr); err != nil {
			return nil, err
		}
	}
}

func wantEntry(want map[string]wanted, name string, h *tar.Header, r io.Reader) error {
	w := wanted{mode: h.FileInfo().Mode()}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeLink:
		target, err := localName(h.Linkname)
		if err != nil {
			return err
		}
		w = want[filepath.ToSlash(target)]
	case tar.TypeSymlink:
		w.link = h.Linkname
	case tar.TypeReg, tar.TypeGNUSparse:
		sum := sha256.New()
		if _, err := copyBuffer(sum, r); err != nil {
			return tarError(err)
		}
		w.digest = digest.NewDigestFromBytes(digest.SHA256, sum.Sum(nil))
	}
	if have, ok := want[name]; ok && have.mode.IsDir() && !w.mode.IsDir() {
		for p := range want { // the directory was replaced, with all in it
			if strings.HasPrefix(p, name+"/") {
				delete(want, p)
			}
		}
	}
	want[name] = w
	return nil
}
