package mirror

import (
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// name is a tag of a repository in the private registry.
type name struct{ repository, tag string }

// target returns the name under which the cluster asks for im.
func (r *Result) target(im *Image) ref.Reference { return r.naming.Target(r.private, im.Reference) }

// tags returns the image that each tag in the private registry points to.
// name:tag wins over name:tag@digest, because the latter is pulled by its digest;
// so does a layer below that gives the tag to another image. Among equals the
// first request wins.
func (r *Result) tags(below union) map[name]*Image {
	out := map[name]*Image{}
	for _, pinned := range []bool{false, true} {
		for i := range r.Images {
			im := &r.Images[i]
			t := r.target(im)
			n := name{t.Repository, t.Tag}
			if im.Err != nil || im.source().Registry == r.private || t.Tag == "" || out[n] != nil || (t.Digest != "") != pinned {
				continue
			}
			if old := below.tags[n].digest; pinned && old != "" && old != im.Descriptor.Digest {
				continue
			}
			out[n] = im
		}
	}
	return out
}

// requirements checks the requests for the private registry, which is never
// fetched from. Each must have the name of another image of this run or of a
// layer below.
func (e *engine) requirements() {
	below := unite(slices.Concat(e.o.Held, e.o.Below))
	tags := e.result.tags(below)
	revisions := map[string]map[digest.Digest]ocispec.Descriptor{}
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.Err != nil || im.source().Registry == e.o.PrivateRegistry {
			continue
		}
		t := e.result.target(im)
		if revisions[t.Repository] == nil {
			revisions[t.Repository] = map[digest.Digest]ocispec.Descriptor{}
		}
		for _, d := range im.Manifests {
			revisions[t.Repository][d.Digest] = d
		}
	}
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.source().Registry != e.o.PrivateRegistry {
			continue
		}
		r := im.source()
		if r.Digest == "" {
			if by := tags[name{r.Repository, r.Tag}]; by != nil {
				im.Descriptor, im.Manifests, im.Blobs = by.Descriptor, by.Manifests, by.Blobs
				im.Platforms, im.Size = by.Platforms, by.Size
				continue
			}
			if d := below.tags[name{r.Repository, r.Tag}]; d.digest != "" {
				im.Descriptor, im.SatisfiedBelow = below.revisions[r.Repository][d.digest].descriptor(), true
				continue
			}
		} else if d, ok := revisions[r.Repository][r.Digest]; ok {
			im.Descriptor = d
			continue
		} else if v, ok := below.revisions[r.Repository][r.Digest]; ok {
			im.Descriptor, im.SatisfiedBelow = v.descriptor(), true
			continue
		}
		im.Err = ErrNotMirrored
	}
}

// collisions returns an error for each two different images that are asked for by
// one name, both of this run, or one of a layer below. A tag that moved upstream
// since the layer below was made is no collision: following it is the purpose of
// a rebuild.
func (e *engine) collisions() []error {
	below := unite(slices.Concat(e.o.Held, e.o.Below))
	first := map[name]*Image{}
	var errs []error
	for i := range e.result.Images {
		im := &e.result.Images[i]
		t := e.result.target(im)
		if im.Err != nil || t.Tag == "" || t.Digest != "" || im.source().Registry == e.o.PrivateRegistry {
			continue // a request for the private registry is satisfied by one of the others
		}
		n := name{t.Repository, t.Tag}
		advice := "; choose the full naming, or a name for one of them (NAME=SOURCE)"
		if e.result.naming == tree.NamingFull {
			advice = "; choose a name for one of them (NAME=SOURCE)"
		}
		if other := first[n]; other == nil {
			first[n] = im
		} else if other.Descriptor.Digest != im.Descriptor.Digest {
			errs = append(errs, fmt.Errorf("%w: %s:%s is %s, and %s%s", ErrCollision, n.repository, n.tag, other.Request, im.Request, advice))
			continue
		}
		old := below.tags[n]
		source := old.askedBy()
		if old.digest == "" || old.digest == im.Descriptor.Digest || source == "" || old.sources[im.Reference] {
			continue
		}
		errs = append(errs, fmt.Errorf("%w: %s:%s is %s in a layer below, and %s%s", ErrCollision, n.repository, n.tag, source, im.Request, advice))
	}
	return errs
}

// union is the merged content of the registry layers below.
type union struct {
	tags      map[name]tag
	revisions map[string]map[digest.Digest]revision
	layers    map[string]map[digest.Digest]bool
	blobs     map[digest.Digest]bool
}

type tag struct {
	digest  digest.Digest
	sources map[ref.Reference]bool
}

type revision struct {
	tree.Revision
	sources map[ref.Reference]bool
}

func (r revision) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: r.MediaType, Digest: r.Digest, Size: r.Size}
}

// unite merges documents, lowest first. A tag of a higher layer hides the same
// tag of a lower one; everything else adds up.
func unite(docs []*tree.Document) union {
	u := union{
		tags: map[name]tag{}, revisions: map[string]map[digest.Digest]revision{},
		layers: map[string]map[digest.Digest]bool{}, blobs: map[digest.Digest]bool{},
	}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			if u.revisions[r.Name] == nil {
				u.revisions[r.Name] = map[digest.Digest]revision{}
				u.layers[r.Name] = map[digest.Digest]bool{}
			}
			for _, t := range r.Tags {
				n := name{r.Name, t.Name}
				old := u.tags[n]
				if old.digest != t.Digest {
					old = tag{digest: t.Digest, sources: map[ref.Reference]bool{}}
				}
				addAll(old.sources, t.Sources)
				u.tags[n] = old
			}
			for _, v := range r.Revisions {
				old := u.revisions[r.Name][v.Digest]
				if old.sources == nil {
					old = revision{v, map[ref.Reference]bool{}}
				}
				addAll(old.sources, v.Sources)
				u.revisions[r.Name][v.Digest] = old
			}
			for _, l := range r.Layers {
				u.layers[r.Name][l] = true
			}
		}
		for _, b := range doc.Blobs {
			u.blobs[b.Digest] = true
		}
	}
	return u
}

func addAll(set map[ref.Reference]bool, items []ref.Reference) {
	for _, s := range items {
		set[s] = true
	}
}

// askedBy returns the first, in lexical order, of the references that have the
// tag and no digest, or "".
func (t tag) askedBy() string {
	best := ""
	for r := range t.sources {
		if s := r.String(); r.Digest == "" && (best == "" || s < best) {
			best = s
		}
	}
	return best
}
