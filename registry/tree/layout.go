package tree

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// Root is the directory of a registry tree inside the layer that holds it.
const Root = "registry"

// v2 is the root of distribution's storage layout inside Root; see
// registry/storage/paths.go of github.com/distribution/distribution.
const v2 = "docker/registry/v2"

// BlobPath returns the path of a blob's content, relative to Root.
func BlobPath(d digest.Digest) string {
	hex := d.Encoded()
	return path.Join(v2, "blobs", d.Algorithm().String(), hex[:2], hex, "data")
}

// RepositoryPath returns the directory of a repository, relative to Root.
func RepositoryPath(repository string) string { return path.Join(v2, "repositories", repository) }

// TagPath returns the path of a tag's current link, relative to Root.
func TagPath(repository, tag string) string {
	return path.Join(v2, "repositories", repository, "_manifests/tags", tag, "current/link")
}

// RevisionPath returns the path of a revision link, relative to Root.
func RevisionPath(repository string, d digest.Digest) string {
	return path.Join(v2, "repositories", repository, "_manifests/revisions", d.Algorithm().String(), d.Encoded(), "link")
}

// LayerPath returns the path of a layer link, relative to Root.
func LayerPath(repository string, d digest.Digest) string {
	return path.Join(v2, "repositories", repository, "_layers", d.Algorithm().String(), d.Encoded(), "link")
}

func tagIndexPath(repository, tag string, d digest.Digest) string {
	return path.Join(v2, "repositories", repository, "_manifests/tags", tag, "index", d.Algorithm().String(), d.Encoded(), "link")
}

// Prepare makes the tree of d in dir/registry without the blobs: all directories
// and the link files. dir must be new. After an error the caller removes it.
func Prepare(dir string, d *Document) error {
	if err := d.Validate(); err != nil { // names become paths below
		return err
	}
	root := filepath.Join(dir, Root)
	made := map[string]bool{}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("write registry tree: %w", err)
	}
	made[root] = true
	var g errgroup.Group
	g.SetLimit(writers)
	for _, p := range parts(d) {
		base := filepath.Join(root, filepath.FromSlash(p.dir))
		if err := makeDirs(base, made); err != nil {
			return errors.Join(fmt.Errorf("write registry tree: %w", err), g.Wait())
		}
		g.Go(func() error {
			if err := p.write(root, base); err != nil {
				return fmt.Errorf("write registry tree: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Place completes the tree that Prepare made in dir. It calls link for each blob
// of d.Blobs, concurrently, with the blob's digest and its path in the tree.
func Place(dir string, d *Document, link func(d digest.Digest, path string) error) error {
	var g errgroup.Group
	g.SetLimit(writers)
	for _, b := range d.Blobs {
		g.Go(func() error {
			if err := link(b.Digest, filepath.Join(dir, Root, filepath.FromSlash(BlobPath(b.Digest)))); err != nil {
				return fmt.Errorf("write registry tree: blob %s: %w", b.Digest, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// writers is the number of parts of a tree that are made at a time. The tree of a
// hundred images has thousands of directories and files, each a few system calls
// that wait for the file system. More writers would take processors from the
// transfers that run beside them.
const writers = 2

// A part of a tree can be made independently of the others once its directory
// exists: a repository without the repositories inside it, or the blobs whose
// digests begin with the same two digits.
type part struct {
	dir   string // relative to Root
	dirs  []string
	links []link
}

func parts(d *Document) []part {
	var out []part
	for _, r := range d.Repositories {
		out = append(out, part{dir: RepositoryPath(r.Name), links: repositoryLinks(r)})
	}
	shards := map[string]int{}
	for _, b := range d.Blobs {
		dir := path.Dir(BlobPath(b.Digest))
		shard := path.Dir(dir)
		i, ok := shards[shard]
		if !ok {
			i = len(out)
			shards[shard] = i
			out = append(out, part{dir: shard})
		}
		out[i].dirs = append(out[i].dirs, dir)
	}
	return out
}

// write makes the part in root, in the directory base.
func (p part) write(root, base string) error {
	made := map[string]bool{base: true}
	for _, d := range p.dirs {
		if err := makeDirs(filepath.Join(root, filepath.FromSlash(d)), made); err != nil {
			return err
		}
	}
	for _, l := range p.links {
		file := filepath.Join(root, filepath.FromSlash(l.path))
		if err := makeDirs(filepath.Dir(file), made); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(l.target), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeDirs makes dir and its missing parents. made holds the directories that
// exist.
func makeDirs(dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := makeDirs(filepath.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return os.Mkdir(dir, 0o755)
}

type link struct {
	path   string // relative to Root
	target digest.Digest
}

func links(d *Document) []link {
	var out []link
	for _, r := range d.Repositories {
		out = append(out, repositoryLinks(r)...)
	}
	return out
}

func repositoryLinks(r Repository) []link {
	var out []link
	for _, l := range r.Layers {
		out = append(out, link{LayerPath(r.Name, l), l})
	}
	for _, v := range r.Revisions {
		out = append(out, link{RevisionPath(r.Name, v.Digest), v.Digest})
	}
	for _, t := range r.Tags {
		out = append(out, link{TagPath(r.Name, t.Name), t.Digest}, link{tagIndexPath(r.Name, t.Name, t.Digest), t.Digest})
	}
	return out
}

// A Fault is a link file of a written tree that is missing or wrong.
type Fault struct {
	Path string // relative to the layer
	Err  error
}

// VerifyLinks compares the link files below dir/registry with d and returns the
// differences, in the order of the document. It does not read blobs.
func VerifyLinks(dir string, d *Document) []Fault {
	var faults []Fault
	for _, l := range links(d) {
		p := filepath.Join(dir, Root, filepath.FromSlash(l.path))
		b, err := os.ReadFile(p)
		if err == nil && string(b) != l.target.String() {
			err = fmt.Errorf("it points at %q, want %s", b, l.target)
		}
		if err != nil {
			faults = append(faults, Fault{path.Join(Root, l.path), err})
		}
	}
	return faults
}

// Present reports whether every link file and blob of d is below dir/registry
// with its size. It reads no file, so that a build can call it each time.
func Present(dir string, d *Document) bool {
	has := func(name string, size int64) bool {
		info, err := os.Lstat(filepath.Join(dir, Root, filepath.FromSlash(name)))
		return err == nil && info.Mode().IsRegular() && info.Size() == size
	}
	for _, l := range links(d) {
		if !has(l.path, int64(len(l.target))) {
			return false
		}
	}
	for _, b := range d.Blobs {
		if !has(BlobPath(b.Digest), b.Size) {
			return false
		}
	}
	return true
}
