package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// HeldInFiles describes the registry trees that lie in ordinary layers of im, as
// in the images of sealer 0.9, which have no registry layers. It is nil where
// there is no such tree. A manifest that is missing or damaged is left out; a name
// that no registry may have is an error.
//
// Sources are those references of im's config that ask for the tag or the digest;
// a name that the config does not list has its name in the private registry.
func HeldInFiles(s *store.Store, im *store.Image) (_ *tree.Document, err error) {
	ids := filesWithRegistry(s, im)
	if len(ids) == 0 {
		return nil, nil
	}
	root, err := s.Rootfs(ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	h := &heldReader{root: root, private: cmp.Or(im.Config.PrivateRegistry.Name, ref.DefaultPrivate), repositories: map[string]*heldRepository{}}
	if err := h.links(); err != nil {
		return nil, fmt.Errorf("registry in the files of image %s: %w", im.ID, err)
	}
	for _, m := range im.Config.Images {
		if m.Missing == "" && m.Reference.IsReference() {
			h.listed(im.Config.PrivateRegistry.Naming.Target(h.private, m.Reference.Reference), m.Reference.Reference, m.Digest)
		}
	}
	doc := h.document()
	if err := doc.Validate(); err != nil { // names become parts of URLs
		return nil, fmt.Errorf("registry in the files of image %s: %w", im.ID, err)
	}
	return doc, nil
}

// filesWithRegistry returns the ordinary layers of im that hold a registry tree.
func filesWithRegistry(s *store.Store, im *store.Image) []digest.Digest {
	var files []digest.Digest
	for _, l := range im.Layers {
		if !l.IsRegistry() {
			files = append(files, l.ID)
		}
	}
	return RegistryLayers(s, files)
}

type heldReader struct {
	root         fs.FS
	private      string
	repositories map[string]*heldRepository
}

type heldRepository struct {
	tags      map[string]*tree.Tag
	revisions map[digest.Digest]*tree.Revision
	layers    []digest.Digest
	children  map[digest.Digest]bool // manifests that an index of the repository lists
}

// links reads the link files of all repositories.
func (h *heldReader) links() error {
	top := path.Join(tree.Root, tree.RepositoryPath(""))
	tags := map[string]digest.Digest{}
	err := fs.WalkDir(h.root, top, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == top {
			return fs.SkipAll // a directory of this name that is no registry
		}
		if err != nil || d.Name() != "link" || !d.Type().IsRegular() {
			return err
		}
		in := strings.TrimPrefix(name, top+"/")
		if repository, rest, ok := strings.Cut(in, "/_layers/"); ok {
			if v := linkDigest(rest); v != "" {
				r := h.repository(repository)
				r.layers = append(r.layers, v)
			}
		} else if repository, rest, ok := strings.Cut(in, "/_manifests/revisions/"); ok {
			if v := linkDigest(rest); v != "" {
				h.revision(repository, v)
			}
		} else if tag, ok := strings.CutSuffix(in, "/current/link"); ok {
			b, err := h.read(name, 200)
			tags[tag] = digest.Digest(strings.TrimSpace(string(b)))
			return err
		}
		return nil
	})
	for at, d := range tags { // a tag counts when its manifest is there
		repository, tag, _ := strings.Cut(at, "/_manifests/tags/")
		if r := h.repositories[repository]; r != nil && r.revisions[d] != nil {
			r.tags[tag] = &tree.Tag{Name: tag, Digest: d}
		}
	}
	return err
}

// linkDigest reads "sha256/HEX/link"; "" stands for anything else.
func linkDigest(s string) digest.Digest {
	d := digest.Digest(strings.Replace(strings.TrimSuffix(s, "/link"), "/", ":", 1))
	if !ref.IsSHA256(d) {
		return ""
	}
	return d
}

func (h *heldReader) repository(name string) *heldRepository {
	r := h.repositories[name]
	if r == nil {
		r = &heldRepository{tags: map[string]*tree.Tag{}, revisions: map[digest.Digest]*tree.Revision{}, children: map[digest.Digest]bool{}}
		h.repositories[name] = r
	}
	return r
}

// revision records a manifest that is there with the content of its digest.
func (h *heldReader) revision(repository string, d digest.Digest) {
	b, err := h.read(path.Join(tree.Root, tree.BlobPath(d)), remote.MaxManifest)
	if err != nil || digest.FromBytes(b) != d {
		return
	}
	m, err := remote.ParseManifest("", b)
	if err != nil {
		return
	}
	r := h.repository(repository)
	r.revisions[d] = &tree.Revision{Digest: d, MediaType: m.MediaType, Size: int64(len(b))}
	for _, c := range m.Manifests {
		r.children[c.Digest] = true
	}
}

func (h *heldReader) read(name string, limit int64) ([]byte, error) {
	f, err := h.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// listed adds the source to what the private registry answers for target with;
// want is the digest that the config says, or "".
func (h *heldReader) listed(target, source ref.Reference, want digest.Digest) {
	r := h.repositories[target.Repository]
	if r == nil {
		return
	}
	d := target.Digest
	if t := r.tags[target.Tag]; t != nil && d == "" && (want == "" || want == t.Digest) {
		t.Sources = append(t.Sources, source)
		d = t.Digest
	}
	if v := r.revisions[d]; v != nil {
		v.Sources = append(v.Sources, source)
	}
}

// document returns the repositories, each name with a source.
func (h *heldReader) document() *tree.Document {
	doc := &tree.Document{}
	for name, r := range h.repositories {
		out := tree.Repository{Name: name, Layers: r.layers}
		tagged := map[digest.Digest]bool{}
		own := ref.Reference{Registry: h.private, Repository: name}
		for _, t := range r.tags {
			tagged[t.Digest] = true
			if own.Tag = t.Name; len(t.Sources) == 0 {
				t.Sources = []ref.Reference{own}
			}
			out.Tags = append(out.Tags, *t)
		}
		own.Tag = ""
		for _, v := range r.revisions {
			if own.Digest = v.Digest; len(v.Sources) == 0 && !tagged[v.Digest] && !r.children[v.Digest] {
				v.Sources = []ref.Reference{own}
			}
			out.Revisions = append(out.Revisions, *v)
		}
		doc.Repositories = append(doc.Repositories, out)
	}
	slices.SortFunc(doc.Repositories, func(a, b tree.Repository) int { return strings.Compare(a.Name, b.Name) })
	return doc
}

// A heldSource reads blobs from the store, and those that it lacks from the
// registry trees in images' files.
type heldSource struct {
	*store.Store
	roots []fs.FS
}

// OpenBlob implements remote.Source.
func (h heldSource) OpenBlob(ctx context.Context, d digest.Digest) (*os.File, error) {
	f, err := h.Store.OpenBlob(ctx, d)
	for _, root := range h.roots {
		if err == nil {
			break
		}
		file, treeErr := root.Open(path.Join(tree.Root, tree.BlobPath(d)))
		if treeErr != nil {
			continue
		}
		if regular, ok := file.(*os.File); ok {
			return regular, nil
		}
		file.Close()
	}
	return f, err
}

// unheld returns those references that im lists and docs lack.
func unheld(im *store.Image, docs []*tree.Document) []ref.Reference {
	there := map[string]bool{}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, t := range r.Tags {
				there[r.Name+":"+t.Name] = true
			}
			for _, v := range r.Revisions {
				there[r.Name+"@"+v.Digest.String()] = true
			}
		}
	}
	c := &im.Config
	var out []ref.Reference
	for _, r := range c.References() {
		t := c.PrivateRegistry.Naming.Target(cmp.Or(c.PrivateRegistry.Name, ref.DefaultPrivate), r)
		if t.Digest != "" {
			t.Tag = ""
		}
		if !there[t.Repository+t.Suffix()] {
			out = append(out, r)
		}
	}
	return out
}
