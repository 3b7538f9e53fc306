package mirror

import (
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// KnownFrom collects, for Options.Known, the digest of each reference that the
// registry layers docs record. Later documents win.
func KnownFrom(docs []*tree.Document) map[string]digest.Digest {
	known := map[string]digest.Digest{}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, v := range r.Revisions {
				for _, s := range v.Sources {
					known[s.String()] = v.Digest
				}
			}
			for _, t := range r.Tags {
				for _, s := range t.Sources {
					known[s.String()] = t.Digest
				}
			}
		}
	}
	return known
}

// Document returns the registry layer document of the complete images. It lists
// only names and blobs that the layers below, lowest first, lack, and is nil when
// there are none.
func (r *Result) Document(below []*tree.Document) *tree.Document {
	d := &documentBuilder{below: unite(below), repositories: map[string]*repository{}, blobs: map[digest.Digest]int64{}}
	tags := r.tags(unite(slices.Concat(r.held, below)))
	for i := range r.Images {
		if im := &r.Images[i]; im.Err == nil && im.source().Registry != r.private {
			at := r.target(im)
			if by := tags[name{at.Repository, at.Tag}]; by == nil || by.Descriptor.Digest != im.Descriptor.Digest {
				at.Tag = "" // the tag names another image
			}
			d.add(at, im)
			for _, a := range im.Attached {
				d.attach(at, im, a)
			}
		}
	}
	return d.document()
}

type documentBuilder struct {
	below        union
	repositories map[string]*repository
	blobs        map[digest.Digest]int64
}

type repository struct {
	tags      map[string]*tree.Tag
	revisions map[digest.Digest]*tree.Revision
	layers    map[digest.Digest]bool
}

// add records im under the name at, without the parts that below has.
func (d *documentBuilder) add(at ref.Reference, im *Image) {
	source := im.Reference
	r := d.repositories[at.Repository]
	if r == nil {
		r = &repository{map[string]*tree.Tag{}, map[digest.Digest]*tree.Revision{}, map[digest.Digest]bool{}}
		d.repositories[at.Repository] = r
	}
	top := im.Descriptor.Digest
	if at.Tag != "" {
		if old := d.below.tags[name{at.Repository, at.Tag}]; old.digest != top || !old.sources[source] {
			t := r.tags[at.Tag]
			if t == nil {
				t = &tree.Tag{Name: at.Tag, Digest: top}
				r.tags[at.Tag] = t
			}
			t.Sources = append(t.Sources, source)
			r.revision(im.Descriptor) // a document must have the revisions that its tags name
		}
	}
	for _, m := range im.Manifests {
		old, has := d.below.revisions[at.Repository][m.Digest]
		isTop := m.Digest == top
		if !has || isTop && !old.sources[source] {
			v := r.revision(m)
			if isTop {
				v.Sources = append(v.Sources, source)
			}
		}
		d.blob(m)
	}
	for _, b := range im.Blobs {
		if !d.below.layers[at.Repository][b.Digest] {
			r.layers[b.Digest] = true
		}
		d.blob(b)
	}
}

// attach records an attachment of im, which is in the repository of at. Where
// images of two registries fall on one repository, the first one's stays.
func (d *documentBuilder) attach(at ref.Reference, im *Image, a Attached) {
	if t := d.repositories[at.Repository].tags[a.Tag]; t != nil && t.Digest != a.Descriptor.Digest {
		return
	}
	at.Tag, at.Digest = a.Tag, ""
	source := ref.Reference{Registry: im.Reference.Registry, Repository: im.Reference.Repository, Tag: a.Tag}
	d.add(at, &Image{Request: Request{Reference: source}, Descriptor: a.Descriptor, Manifests: a.Manifests, Blobs: a.Blobs})
}

func (r *repository) revision(m ocispec.Descriptor) *tree.Revision {
	v := r.revisions[m.Digest]
	if v == nil {
		v = &tree.Revision{Digest: m.Digest, MediaType: m.MediaType, Size: m.Size}
		r.revisions[m.Digest] = v
	}
	return v
}

func (d *documentBuilder) blob(b ocispec.Descriptor) {
	if !d.below.blobs[b.Digest] {
		d.blobs[b.Digest] = b.Size
	}
}

// document returns the recorded repositories and blobs, sorted.
func (d *documentBuilder) document() *tree.Document {
	doc := &tree.Document{}
	for _, name := range slices.Sorted(maps.Keys(d.repositories)) {
		r := d.repositories[name]
		out := tree.Repository{Name: name, Layers: slices.Sorted(maps.Keys(r.layers))}
		for _, t := range slices.Sorted(maps.Keys(r.tags)) {
			r.tags[t].Sources = tree.SortedSources(r.tags[t].Sources)
			out.Tags = append(out.Tags, *r.tags[t])
		}
		for _, v := range slices.Sorted(maps.Keys(r.revisions)) {
			r.revisions[v].Sources = tree.SortedSources(r.revisions[v].Sources)
			out.Revisions = append(out.Revisions, *r.revisions[v])
		}
		if len(out.Tags)+len(out.Revisions)+len(out.Layers) > 0 {
			doc.Repositories = append(doc.Repositories, out)
		}
	}
	for _, b := range slices.Sorted(maps.Keys(d.blobs)) {
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: b, Size: d.blobs[b]})
	}
	if len(doc.Repositories)+len(doc.Blobs) == 0 {
		return nil
	}
	return doc
}
