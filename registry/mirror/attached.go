package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
)

// maxReferrers bounds the manifests that a registry may name as one image's.
const maxReferrers = 256

// Attachments finds the signatures, attestations and other artifacts that belong to
// images: those under cosign's tags (sha256-HEX.sig, .att, .sbom), and those whose
// manifests name the image as their subject. It remembers the registries' answers
// for a run of several calls of Mirror. It is safe for concurrent use.
type Attachments struct {
	// Known are the digests of attachments in earlier builds or in a lock file, by
	// reference; see Result.Attached. With Fixed or Options.Offline nothing else is
	// taken, and no registry is asked for a list.
	Known map[string]digest.Digest
	Fixed bool

	mu           sync.Mutex
	registries   map[string]*registryAnswer
	repositories map[string]*repositoryAnswer
	known        map[string][]knownAttachment // by repository:sha256-HEX
	noted        map[string]bool
}

type knownAttachment struct {
	suffix string // after sha256-HEX
	digest digest.Digest
}

// registryAnswer says whether a registry lists referrers: the first request tells.
type registryAnswer struct {
	once sync.Once
	has  bool
}

// repositoryAnswer are the tags of a repository that belong to attachments.
type repositoryAnswer struct {
	once sync.Once
	tags map[string]bool
	err  error
}

// An Attached artifact belongs to an image: it has the tag Tag in the image's
// repository. Where Tag is that of the referrers tag schema, the content is an
// index of the artifacts, made here out of the registry's list.
type Attached struct {
	Tag        string
	Descriptor ocispec.Descriptor
	Manifests  []ocispec.Descriptor // the top last
	Blobs      []ocispec.Descriptor
}

// attach fills im.Attached with what belongs to im, one level and that level's own.
// Failures do not fail the image: they are noted.
func (e *engine) attach(ctx context.Context, im *Image) {
	a := e.o.Attachments
	if a == nil {
		return
	}
	c := e.c.As(im.Credential)
	top := im.Descriptor.Digest
	var subjects []digest.Digest
	for _, m := range slices.Backward(im.Manifests) {
		subjects = append(subjects, m.Digest)
	}
	for range 2 {
		var next []digest.Digest
		for _, d := range subjects {
			for _, suffix := range tree.CosignSuffixes {
				next = append(next, e.cosign(ctx, c, im, tree.AttachmentTag(d)+suffix)...)
			}
			// One request an image: the platforms' manifests have their attestations
			// in the index, where they have any.
			next = append(next, e.referrers(ctx, c, im, d, d == top || !slices.ContainsFunc(im.Manifests, func(m ocispec.Descriptor) bool { return m.Digest == d }))...)
		}
		subjects = next
	}
}

// fixed reports whether only known attachments are taken.
func (e *engine) fixed() bool { return e.o.Attachments.Fixed || e.o.Offline }

// cosign adds the artifact under a tag of im's repository, if there is one, and
// returns its manifest.
func (e *engine) cosign(ctx context.Context, c *remote.Client, im *Image, tag string) []digest.Digest {
	at := ref.Reference{Registry: im.source().Registry, Repository: im.source().Repository, Tag: tag}
	o := remote.WalkOptions{Offline: e.o.Offline, Known: e.o.Attachments.Known[at.String()], Judged: true}
	if e.fixed() {
		if o.Known == "" {
			return nil
		}
		at.Tag, at.Digest = "", o.Known
	} else if !e.tagged(ctx, c, im, at.Repository, tag) {
		return nil
	}
	content, err := c.Walk(ctx, e.sink, at, o)
	if errors.Is(err, remote.ErrNotFound) && !e.fixed() {
		return nil // removed meanwhile
	}
	if err != nil {
		e.note(im, fmt.Errorf("%s: %w", tag, err))
		return nil
	}
	im.Attached = append(im.Attached, Attached{Tag: tag, Descriptor: content.Descriptor, Manifests: content.Manifests, Blobs: content.Blobs})
	return []digest.Digest{content.Descriptor.Digest}
}

// tagged reports whether im's repository has the tag. The registry is asked once for
// the tags of a repository.
func (e *engine) tagged(ctx context.Context, c *remote.Client, im *Image, repository, tag string) bool {
	a := e.o.Attachments
	at := ref.Reference{Registry: im.source().Registry, Repository: repository}
	r := a.repository(at.Name())
	r.once.Do(func() {
		r.tags = map[string]bool{}
		list, err := c.TagsAfter(ctx, at, tree.AttachmentPrefix, tree.AttachmentPrefix)
		if err != nil && !errors.Is(err, remote.ErrNotFound) {
			r.err = err
		}
		for _, t := range list {
			r.tags[t] = true
		}
	})
	if r.err != nil {
		e.note(im, r.err)
	}
	return r.tags[tag]
}

func (a *Attachments) repository(name string) *repositoryAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.repositories == nil {
		a.repositories, a.registries, a.noted = map[string]*repositoryAnswer{}, map[string]*registryAnswer{}, map[string]bool{}
	}
	r := a.repositories[name]
	if r == nil {
		r = &repositoryAnswer{}
		a.repositories[name] = r
	}
	return r
}

func (a *Attachments) registry(name string) *registryAnswer {
	a.repository("") // makes the maps
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.registries[name]
	if r == nil {
		r = &registryAnswer{}
		a.registries[name] = r
	}
	return r
}

// referrers adds the index of the artifacts whose subject is d, if there are any,
// and returns their manifests. The registry's API is asked where ask is set.
func (e *engine) referrers(ctx context.Context, c *remote.Client, im *Image, d digest.Digest, ask bool) []digest.Digest {
	at := ref.Reference{Registry: im.source().Registry, Repository: im.source().Repository, Digest: d}
	list, err := e.list(ctx, c, im, at, ask)
	if err == nil && len(list) > maxReferrers {
		err = fmt.Errorf("referrers of %s: %d, and sealer takes %d", d, len(list), maxReferrers)
	}
	if err != nil {
		e.note(im, err)
		return nil
	}
	tag := tree.AttachmentTag(d)
	out := Attached{Tag: tag}
	var entries []ocispec.Descriptor
	for _, child := range list {
		content, entry, err := e.referrer(ctx, c, at, child)
		if err != nil {
			e.note(im, fmt.Errorf("referrer %s: %w", child, err))
			continue
		}
		if slices.ContainsFunc(entries, func(m ocispec.Descriptor) bool { return m.Digest == entry.Digest }) {
			continue
		}
		entries = append(entries, entry)
		out.Manifests = append(out.Manifests, content.Manifests...)
		out.Blobs = append(out.Blobs, content.Blobs...)
	}
	if len(entries) == 0 {
		return nil
	}
	if out.Descriptor, err = e.putIndex(ctx, entries); err != nil {
		e.note(im, err)
		return nil
	}
	out.Manifests = append(out.Manifests, out.Descriptor)
	im.Attached = append(im.Attached, out)
	var digests []digest.Digest
	for _, m := range entries {
		digests = append(digests, m.Digest)
	}
	return digests
}

// list returns the digests of the artifacts whose subject is at: by the API, else by
// the tag of the referrers tag schema, else those that are known.
func (e *engine) list(ctx context.Context, c *remote.Client, im *Image, at ref.Reference, ask bool) ([]digest.Digest, error) {
	a := e.o.Attachments
	tag := tree.AttachmentTag(at.Digest)
	if e.fixed() {
		return e.knownReferrers(ctx, at, tag), nil
	}
	var list []ocispec.Descriptor
	if ask {
		r := a.registry(at.Registry)
		var err error
		first := false
		r.once.Do(func() { list, r.has, err = c.Referrers(ctx, at); first = true })
		if !first && r.has {
			list, _, err = c.Referrers(ctx, at)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(list) == 0 && e.tagged(ctx, c, im, at.Repository, tag) {
		_, b, err := c.Manifest(ctx, ref.Reference{Registry: at.Registry, Repository: at.Repository, Tag: tag})
		if errors.Is(err, remote.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if list, err = manifestsOf(b); err != nil {
			return nil, fmt.Errorf("%s: %w", tag, err)
		}
	}
	var out []digest.Digest
	for _, d := range list {
		out = append(out, d.Digest)
	}
	return out, nil
}

func manifestsOf(index []byte) ([]ocispec.Descriptor, error) {
	var idx ocispec.Index
	err := json.Unmarshal(index, &idx)
	return idx.Manifests, err
}

// knownReferrers returns the known artifacts of a subject: single ones, as a lock
// file has them, and those of an index that an earlier build made.
func (e *engine) knownReferrers(ctx context.Context, at ref.Reference, tag string) []digest.Digest {
	a := e.o.Attachments
	a.mu.Lock()
	if a.known == nil {
		a.known = map[string][]knownAttachment{}
		for name, d := range a.Known {
			i := strings.LastIndex(name, ":"+tree.AttachmentPrefix)
			if i < 0 || len(name) < i+1+len(tag) {
				continue
			}
			key, suffix := name[:i+1+len(tag)], name[i+1+len(tag):]
			a.known[key] = append(a.known[key], knownAttachment{suffix, d})
		}
	}
	list := a.known[at.Name()+":"+tag]
	a.mu.Unlock()
	var out []digest.Digest
	for _, k := range list {
		switch {
		case slices.Contains(tree.CosignSuffixes, k.suffix):
		case k.suffix != "":
			out = append(out, k.digest)
		case !a.Fixed:
			if b, err := e.sink.ReadBlob(ctx, k.digest, remote.MaxManifest); err == nil {
				children, _ := manifestsOf(b)
				for _, c := range children {
					out = append(out, c.Digest)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// referrer reads the artifact d of the subject at, and returns its entry for an
// index. It must say that at is its subject: the list is the registry's word.
func (e *engine) referrer(ctx context.Context, c *remote.Client, at ref.Reference, d digest.Digest) (*remote.Content, ocispec.Descriptor, error) {
	content, err := c.Walk(ctx, e.sink, ref.Reference{Registry: at.Registry, Repository: at.Repository, Digest: d}, remote.WalkOptions{Offline: e.o.Offline, Judged: true})
	if err != nil {
		return nil, ocispec.Descriptor{}, err
	}
	b, err := e.sink.ReadBlob(ctx, d, remote.MaxManifest)
	if err != nil {
		return nil, ocispec.Descriptor{}, err
	}
	entry, err := ReferrerOf(at.Digest, content.Descriptor.MediaType, b)
	return content, entry, err
}

func (e *engine) putIndex(ctx context.Context, entries []ocispec.Descriptor) (ocispec.Descriptor, error) {
	desc, b, err := ReferrersIndex(entries)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return desc, e.sink.PutBlob(ctx, desc, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(b)); return err })
}

// note records, once, that something which belongs to im was not brought.
func (e *engine) note(im *Image, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	a := e.o.Attachments
	a.repository("")
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := err.Error(); !a.noted[text] {
		a.noted[text] = true
		e.result.Notes = append(e.result.Notes, fmt.Errorf("signatures and attestations of %s: %w", im.Reference, err))
	}
}
