package remote

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// Content is the content of an image, for the chosen platforms.
type Content struct {
	Descriptor ocispec.Descriptor   // of the manifest or index, with its media type
	Manifests  []ocispec.Descriptor // children first, Descriptor last
	Blobs      []ocispec.Descriptor // configs and layers, each once
	Platforms  []ocispec.Platform   // of the manifests; empty if none is recorded

	has map[digest.Digest]bool // Blobs
}

// WalkOptions steers Walk. The zero value takes every platform.
type WalkOptions struct {
	// Platforms are the platforms wanted. An index must have them all, and is
	// kept whole. An image without an index must be for one of them, if its
	// config names a platform. Empty means every platform that is listed.
	Platforms []ocispec.Platform
	// Known is the digest that a tag had last. If the sink has that manifest,
	// Walk asks the registry only whether the tag still points to it. Otherwise
	// Walk reads the manifest.
	Known digest.Digest
	// Offline sends no request: the sink must have everything, and a tag resolves
	// to Known.
	Offline bool
	// Judged says that the policy need not judge r: what r belongs to was judged.
	Judged bool
	// Parts, unless it is nil, returns the further manifests that belong to the
	// manifest m, which Walk then reads, too. It may read m's config with sink.
	Parts func(ctx context.Context, sink Sink, m *Parsed) ([]ocispec.Descriptor, error)
	// Signatures gives the manifest of the signatures of an image, which the sink
	// has, "" for none. The policy sees these with Offline.
	Signatures func(digest.Digest) digest.Digest
}

// Walk reads the manifests of r, from sink if it has them, else from the registry
// into sink, and returns the content of the image. It reads no layer. A reference
// with a digest costs no request if sink has the manifests; a tag with Known
// costs one that returns no content.
func (c *Client) Walk(ctx context.Context, sink Sink, r ref.Reference, o WalkOptions) (*Content, error) {
	w := walk{c: c, sink: sink, r: r, o: o}
	if c.o.Policy != nil && !o.Judged {
		if _, err := c.o.Policy.Allow(r); err != nil {
			return nil, err
		}
	}
	top, parsed, err := w.top(ctx)
	if err != nil {
		return nil, err
	}
	content := &Content{Descriptor: top}
	if !parsed.IsIndex() {
		content.add(parsed)
		if err := w.parts(ctx, content, parsed); err != nil {
			return nil, err
		}
		content.Manifests = append(content.Manifests, top)
		if err := w.judge(ctx, content); err != nil {
			return nil, err
		}
		return content, w.checkConfig(ctx, content, parsed)
	}
	chosen, err := choose(parsed.Manifests, o.Platforms)
	if err != nil {
		return nil, err
	}
	children, err := w.children(ctx, chosen)
	if err != nil {
		return nil, err
	}
	content.Manifests = chosen
	for i, d := range chosen {
		content.add(children[i])
		if d.Platform != nil && d.Platform.OS != "unknown" {
			content.Platforms = append(content.Platforms, platform.Normalize(*d.Platform))
		}
	}
	if err := w.parts(ctx, content, children...); err != nil {
		return nil, err
	}
	content.Manifests = append(content.Manifests, top)
	if err := w.judge(ctx, content); err != nil {
		return nil, err
	}
	return content, nil
}

// parts adds the further manifests that belong to those of.
func (w *walk) parts(ctx context.Context, content *Content, of ...*Parsed) error {
	if w.o.Parts == nil {
		return nil
	}
	for _, m := range of {
		list, err := w.o.Parts(ctx, w.sink, m)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(d ocispec.Descriptor) bool {
			return slices.ContainsFunc(content.Manifests, func(have ocispec.Descriptor) bool { return have.Digest == d.Digest })
		})
		more, err := w.children(ctx, list)
		if err != nil {
			return fmt.Errorf("a part of the image (a copy without its index lacks it: skopeo copy needs --all): %w", err)
		}
		content.Manifests = append(content.Manifests, list...)
		for _, p := range more {
			content.add(p)
		}
	}
	return nil
}

// children reads manifests of an index, in their order.
func (w *walk) children(ctx context.Context, list []ocispec.Descriptor) ([]*Parsed, error) {
	out := make([]*Parsed, len(list))
	g, ctx := errgroup.WithContext(ctx)
	for i, d := range list {
		g.Go(func() (err error) {
			out[i], err = w.child(ctx, d)
			return err
		})
	}
	return out, g.Wait()
}

// add appends the blobs of p that c lacks.
func (c *Content) add(p *Parsed) {
	if c.has == nil {
		c.has = map[digest.Digest]bool{}
	}
	for _, d := range append([]ocispec.Descriptor{p.Config}, p.Layers...) {
		if !c.has[d.Digest] {
			c.has[d.Digest] = true
			c.Blobs = append(c.Blobs, d)
		}
	}
}

type walk struct {
	c    *Client
	sink Sink
	r    ref.Reference
	o    WalkOptions
}

// top finds and reads the manifest that the reference names.
func (w *walk) top(ctx context.Context) (ocispec.Descriptor, *Parsed, error) {
	r := w.r
	if r.Digest == "" && w.o.Offline {
		if r.Digest = w.o.Known; r.Digest == "" {
			return ocispec.Descriptor{}, nil, fmt.Errorf("tag %s was never mirrored: %w", r.Tag, ErrOffline)
		}
	}
	if r.Digest == "" && w.o.Known != "" {
		// A tag may move, so the registry is asked each time. The content is
		// fetched only if it moved.
		has, err := w.sink.HasBlob(ctx, w.o.Known)
		if err != nil {
			return ocispec.Descriptor{}, nil, err
		}
		if has {
			d, b, err := w.c.Refresh(ctx, r, w.o.Known)
			if err != nil {
				return ocispec.Descriptor{}, nil, err
			}
			if b != nil {
				return w.keep(ctx, d, b)
			}
			r.Digest = d.Digest
		}
	}
	if r.Digest != "" {
		if b, err := w.held(ctx, r.Digest); b != nil || err != nil {
			return w.parsed(b, err)
		}
	}
	if w.o.Offline {
		return ocispec.Descriptor{}, nil, fmt.Errorf("manifest %s: %w", r.Digest, ErrOffline)
	}
	d, b, err := w.c.Manifest(ctx, r)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	return w.keep(ctx, d, b)
}

// keep writes a manifest from the registry into the sink.
func (w *walk) keep(ctx context.Context, d ocispec.Descriptor, b []byte) (ocispec.Descriptor, *Parsed, error) {
	err := w.sink.PutBlob(ctx, d, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	p, err := ParseManifest(d.MediaType, b)
	return d, p, err
}

func (w *walk) parsed(b []byte, err error) (ocispec.Descriptor, *Parsed, error) {
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	p, err := ParseManifest("", b)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	return ocispec.Descriptor{MediaType: p.MediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}, p, nil
}

// held returns the manifest d from the sink, or nil if the sink lacks it.
func (w *walk) held(ctx context.Context, d digest.Digest) ([]byte, error) {
	has, err := w.sink.HasBlob(ctx, d)
	if err != nil || !has {
		return nil, err
	}
	return w.sink.ReadBlob(ctx, d, MaxManifest)
}

// child reads a manifest of an index. If several images need it at once, one of
// them fetches it: the sink lets one caller write at a time.
func (w *walk) child(ctx context.Context, d ocispec.Descriptor) (*Parsed, error) {
	fail := func(err error) (*Parsed, error) {
		return nil, fmt.Errorf("manifest %s of the index: %w", d.Digest, err)
	}
	if platform.IsIndex(d.MediaType) {
		return fail(fmt.Errorf("an index inside an index: %w", ErrUnsupported))
	}
	if d.Size > MaxManifest {
		return fail(fmt.Errorf("it is said to have %d bytes, the limit is %d: %w", d.Size, MaxManifest, ErrUnsupported))
	}
	b, err := w.held(ctx, d.Digest)
	if err != nil {
		return fail(err)
	}
	if b == nil {
		if w.o.Offline {
			return fail(ErrOffline)
		}
		r := w.r
		r.Digest = d.Digest
		err := w.sink.PutBlob(ctx, d, func(out io.Writer) error {
			got, content, err := w.c.Manifest(ctx, r)
			if err != nil {
				return err
			}
			if got.Size != d.Size {
				return fmt.Errorf("it has %d bytes, the index says %d: %w", got.Size, d.Size, ErrDigest)
			}
			b = content
			_, err = out.Write(content)
			return err
		})
		if err == nil && b == nil { // another goroutine has written it
			b, err = w.held(ctx, d.Digest)
		}
		if err != nil {
			return fail(err)
		}
	}
	p, err := ParseManifest(d.MediaType, b)
	if err != nil {
		return fail(err)
	}
	if p.IsIndex() {
		return fail(fmt.Errorf("an index inside an index: %w", ErrUnsupported))
	}
	return p, nil
}

// choose picks the entries of an index for the platforms, in the order of the
// index.
func choose(manifests []ocispec.Descriptor, want []ocispec.Platform) ([]ocispec.Descriptor, error) {
	if len(want) == 0 {
		seen := map[digest.Digest]bool{}
		return slices.DeleteFunc(slices.Clone(manifests), func(d ocispec.Descriptor) bool {
			dup := seen[d.Digest]
			seen[d.Digest] = true
			return dup
		}), nil
	}
	chosen := map[digest.Digest]bool{}
	var out []ocispec.Descriptor
	for _, p := range want {
		i := platform.Choose(p, manifests)
		if i < 0 {
			return nil, fmt.Errorf("the index has no %s, only %s: %w", platform.String(p), listed(manifests), ErrPlatform)
		}
		if d := manifests[i]; !chosen[d.Digest] {
			chosen[d.Digest] = true
			out = append(out, d)
		}
	}
	return out, nil
}

func listed(manifests []ocispec.Descriptor) string {
	var names []string
	for _, d := range manifests {
		if d.Platform != nil && d.Platform.OS != "unknown" {
			names = append(names, printable(platform.String(*d.Platform), 40))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return "entries without a platform"
	}
	return strings.Join(names, ", ")
}

// checkConfig checks the platform of an image without an index, which only its
// config names. A config of another artifact, or one without a platform, passes:
// the runtime judges it.
func (w *walk) checkConfig(ctx context.Context, content *Content, p *Parsed) error {
	d := p.Config
	if len(w.o.Platforms) == 0 || !platform.IsConfig(d.MediaType) || d.Size > MaxManifest {
		return nil
	}
	b, err := w.held(ctx, d.Digest)
	if err == nil && b == nil && w.o.Offline {
		err = ErrOffline
	}
	if err == nil && b == nil {
		err = w.sink.PutBlob(ctx, d, func(out io.Writer) error { return w.c.Blob(ctx, w.r, d, out) })
		if err == nil {
			b, err = w.sink.ReadBlob(ctx, d.Digest, MaxManifest)
		}
	}
	if err != nil {
		return fmt.Errorf("config %s: %w", d.Digest, err)
	}
	have, said, err := platform.OfConfig(b)
	if err != nil {
		return fmt.Errorf("config %s: %w", d.Digest, err)
	}
	if !said {
		return nil
	}
	content.Platforms = []ocispec.Platform{have}
	for _, want := range w.o.Platforms {
		if !platform.Match(want, have) {
			return fmt.Errorf("the image is for %s only, %s is wanted: %w",
				printable(platform.String(have), 40), platform.String(want), ErrPlatform)
		}
	}
	return nil
}
