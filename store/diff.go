package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/rootfs"
)

// A Change is one difference between two images.
type Change struct {
	Kind string `json:"kind"` // "added", "removed" or "changed"
	Name string `json:"name"` // of a file its path, of an image its reference, of a command its text
	// From and To are the two states: of a file its type, mode and size, of an
	// image its digest.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Bytes are those of an image's blobs that the other ClusterImage lacks.
	Bytes int64 `json:"bytes,omitempty"`
}

// A Difference is the result of Diff; files and images are sorted by name, commands
// are in their order.
type Difference struct {
	Files    []Change `json:"files"`
	Images   []Change `json:"images"`
	Commands []Change `json:"commands"`
	Carry    Payload  `json:"carry"`
}

// Diff compares the files, the mirrored images and the start commands of two
// ClusterImages, for the platform p as in Image. Registry trees are compared by
// their images. Carry is about p or, where p is nil, about all platforms.
func (s *Store) Diff(ctx context.Context, from, to string, p *ocispec.Platform) (*Difference, error) {
	a, err := s.Image(ctx, from, p)
	if err != nil {
		return nil, err
	}
	b, err := s.Image(ctx, to, p)
	if err != nil {
		return nil, err
	}
	d := &Difference{}
	if err := s.diffContent(ctx, d, a, b, p); err != nil {
		return nil, fmt.Errorf("diff %s %s: %w", from, to, err)
	}
	if d.Files, err = s.diffFiles(ctx, a, b); err != nil {
		return nil, fmt.Errorf("diff %s %s: %w", from, to, err)
	}
	return d, nil
}

// changes compares two maps from a name to its state.
func changes[V comparable](from, to map[string]V, text func(V) string) []Change {
	out := []Change{}
	for n, v := range from {
		w, ok := to[n]
		switch {
		case !ok:
			out = append(out, Change{Kind: "removed", Name: n, From: text(v)})
		case v != w:
			out = append(out, Change{Kind: "changed", Name: n, From: text(v), To: text(w)})
		}
	}
	for n, w := range to {
		if _, ok := from[n]; !ok {
			out = append(out, Change{Kind: "added", Name: n, To: text(w)})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// diffImages compares the content of the registries: tags, and the revisions that
// were mirrored by digest alone. A change is named by the reference that was
// mirrored or, of content that has none, by its place in the private registry.
func diffImages(a, b *Image) []Change {
	names := map[string]string{}
	out := changes(served(a, names), served(b, names), func(d string) string { return d })
	for i := range out {
		out[i].Name = names[out[i].Name]
	}
	slices.SortStableFunc(out, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// served returns the digests that an image's registry layers serve, by
// repository:tag or repository@digest; a higher layer hides a lower one's tag. It
// adds to names the first reference that was mirrored as each.
func served(img *Image, names map[string]string) map[string]string {
	out := map[string]string{}
	add := func(at string, d digest.Digest, sources []ref.Reference) {
		out[at], names[at] = d.String(), at
		if len(sources) > 0 {
			names[at] = sources[0].String()
		}
	}
	for _, doc := range img.Documents {
		for _, r := range doc.Repositories {
			tagged := map[digest.Digest]bool{}
			for _, t := range r.Tags {
				add(r.Name+":"+t.Name, t.Digest, t.Sources)
				tagged[t.Digest] = true
			}
			for _, v := range r.Revisions {
				if len(v.Sources) > 0 && !tagged[v.Digest] {
					add(r.Name+"@"+v.Digest.String(), v.Digest, v.Sources)
				}
			}
		}
	}
	return out
}

// fileState holds the values that a file is compared by; content holds a number that equal
// contents share.
type fileState struct {
	mode    fs.FileMode
	size    int64
	link    string
	content int
}

func (f fileState) String() string {
	if f.link != "" {
		return "-> " + f.link
	}
	if f.mode.IsDir() {
		return f.mode.String()
	}
	return fmt.Sprintf("%s %d bytes", f.mode, f.size)
}

func (s *Store) diffFiles(ctx context.Context, a, b *Image) (_ []Change, err error) {
	var trees [2]*rootfs.FS
	var files [2]map[string]fileState
	for i, img := range []*Image{a, b} {
		r, err := s.Rootfs(img.LayerIDs())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		trees[i] = r
		if files[i], err = fileStates(ctx, r); err != nil {
			return nil, err
		}
	}
	for p, x := range files[0] {
		y, ok := files[1][p]
		if !ok || x != y || !x.mode.IsRegular() {
			continue
		}
		same, err := sameContent(trees[0], trees[1], p)
		if err != nil {
			return nil, err
		}
		if !same {
			y.content = 1
			files[1][p] = y
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return changes(files[0], files[1], fileState.String), nil
}

// fileStates returns the files of a rootfs beside the registry trees.
func fileStates(ctx context.Context, r *rootfs.FS) (map[string]fileState, error) {
	out := map[string]fileState{}
	err := fs.WalkDir(r, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == tree.Root && d.IsDir() {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		f := fileState{mode: fi.Mode()}
		switch {
		case p == ".":
			return nil
		case fi.Mode()&fs.ModeSymlink != 0:
			f.link, err = r.ReadLink(p)
		case fi.Mode().IsRegular():
			f.size = fi.Size()
		}
		out[p] = f
		return err
	})
	return out, err
}

// sameContent compares the file p of two trees. A file of a layer that both have
// is not read.
func sameContent(one, other fs.FS, p string) (bool, error) {
	a, err := one.Open(p)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := other.Open(p)
	if err != nil {
		return false, err
	}
	defer b.Close()
	if x, err := a.Stat(); err == nil {
		if y, err := b.Stat(); err == nil && os.SameFile(x, y) {
			return true, nil
		}
	}
	bufA, bufB := layer.NewBuffer(), layer.NewBuffer()
	defer bufA.Free()
	defer bufB.Free()
	for {
		n, errA := layer.Fill(a, bufA[:])
		m, errB := layer.Fill(b, bufB[:])
		if !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if errA == io.EOF && errB == io.EOF {
			return true, nil
		}
		if err := errors.Join(errA, errB); err != nil {
			return false, err
		}
	}
}
