package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// PushOptions steers Push. The zero value works.
type PushOptions struct {
	// Sparse allows an index with manifests that the source lacks; those
	// manifests are not sent. If the registry refuses such an index, the error
	// wraps ErrSparse.
	Sparse bool
	// Reduce sends, in place of an index with missing manifests, an index of the
	// others. Its digest differs from the original's.
	Reduce bool
	// MountFrom gives for a blob a repository of the target's registry that may
	// have it. Push asks the registry to mount the blob from there if Record
	// knows of no other repository.
	MountFrom map[digest.Digest]string
	// Base is an image in the target's registry that is like the pushed one: what
	// it lists is not sent again. The zero Reference means none. A Base that the
	// registry lacks is passed over.
	Base ref.Reference
	// Verify asks the registry for each blob and sends every manifest, and relies
	// on no manifest that is there: a registry may have lost what it lists.
	Verify bool
	// Record remembers what repositories hold, from push to push; nil remembers
	// nothing.
	Record   *Record
	Progress func(Event) // called concurrently; nil for none
}

// Push sends the manifest or index desc, and everything it names that the target
// lacks, to the repository of to. If to has a tag, the tag is set. The source is
// trusted: blobs are not hashed again, the registry does that.
//
// A reference with a tag and a digest is refused, as docker push refuses it: the
// digest would say which manifest the target has, and the tag would be left as it
// is. So is a digest that is not desc's.
//
// Push finds out which blobs the target has from manifests, and asks for a blob
// only where no manifest tells: see push.survey. An unchanged image costs one
// request, and one for each manifest of an index, at any size. That these manifests
// are there is checked; that the target still has their blobs is checked with
// PushOptions.Verify alone.
func (c *Client) Push(ctx context.Context, src Source, desc ocispec.Descriptor, to ref.Reference, o PushOptions) error {
	_, err := c.PushImage(ctx, src, desc, to, o)
	return err
}

// PushImage is Push, and returns the descriptor of the manifest that the target
// got: desc, unless PushOptions.Reduce changed the index.
func (c *Client) PushImage(ctx context.Context, src Source, desc ocispec.Descriptor, to ref.Reference, o PushOptions) (ocispec.Descriptor, error) {
	fail := func(err error) (ocispec.Descriptor, error) {
		return ocispec.Descriptor{}, fmt.Errorf("push %s: %w", to, err)
	}
	if err := checkDestination(to, desc.Digest); err != nil {
		return fail(err)
	}
	t, err := c.destination(to)
	if err != nil {
		return fail(err)
	}
	p := &push{
		c: c, t: t, src: src, to: to, o: o, record: o.Record,
		meter:  meter{report: o.Progress, reference: to.String()},
		wanted: map[digest.Digest]ocispec.Descriptor{}, there: map[digest.Digest]bool{}, mounts: map[digest.Digest]string{},
	}
	if p.record == nil {
		p.record = OpenRecord("")
	}
	if err := p.read(ctx, desc); err != nil {
		return fail(err)
	}
	complete, err := p.survey(ctx)
	if err != nil {
		return fail(err)
	}
	top := p.top().Descriptor
	if complete {
		p.remember()
		return top, nil
	}
	if err := p.blobs(ctx); err != nil {
		return fail(err)
	}
	err = p.sendManifests(ctx)
	if len(p.there) > 0 && errors.Is(err, errRejected) && (!p.sparse || to.Tag == "") {
		// The registry may have lost blobs that its own manifests list: check
		// each one.
		c.log.Debug("the target lacks what its manifests list, asking for each blob", "error", err)
		clear(p.there)
		p.record.doubt(p.t.key())
		if err = p.blobs(ctx); err == nil {
			err = p.sendManifests(ctx)
		}
	}
	if p.sparse && errors.Is(err, errRejected) {
		err = fmt.Errorf("%w: %w", ErrSparse, err)
	}
	if err != nil {
		return fail(err)
	}
	p.remember()
	return top, nil
}

// checkDestination refuses a reference to which the manifest d cannot be pushed.
func checkDestination(to ref.Reference, d digest.Digest) error {
	switch {
	case to.Tag != "" && to.Digest != "":
		return errors.New("a destination has a tag or a digest, not both: leave one out")
	case to.Digest != "" && to.Digest != d:
		return fmt.Errorf("the image's digest is %s: %w", d, ErrDigest)
	}
	return nil
}

type push struct {
	c         *Client
	t         target
	src       Source
	to        ref.Reference
	o         PushOptions
	meter     meter
	record    *Record
	manifests []sentManifest                       // children first
	order     []ocispec.Descriptor                 // the blobs, each once, in the order of the manifests
	wanted    map[digest.Digest]ocispec.Descriptor // the same by digest
	sparse    bool                                 // the index lists manifests that are not sent
	lost      bool                                 // the target has the index, and lacks manifests that it lists

	there  map[digest.Digest]bool   // blobs and manifests that the target has
	mounts map[digest.Digest]string // repositories of the target's registry that have a blob, from the manifest of Base
}

// sentManifest is a manifest to send, with its bytes.
type sentManifest struct {
	ocispec.Descriptor
	bytes []byte
}

// errRejected is a 400 or 404 for a manifest: the registry lacks something that
// the manifest names.
var errRejected = errors.New("the registry refuses the manifest")

// read reads the manifests from the source.
func (p *push) read(ctx context.Context, desc ocispec.Descriptor) error {
	b, err := p.open(ctx, desc.Digest)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	parsed, err := ParseManifest(desc.MediaType, b)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	var sent []digest.Digest
	for _, d := range parsed.Manifests {
		if platform.IsIndex(d.MediaType) {
			return fmt.Errorf("index %s inside an index: %w", d.Digest, ErrUnsupported)
		}
		b, err := p.open(ctx, d.Digest)
		if err != nil && (p.o.Sparse || p.o.Reduce) {
			p.sparse = true
			continue
		}
		if err != nil {
			return fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		child, err := ParseManifest(d.MediaType, b)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		p.add(child)
		p.manifests = append(p.manifests, sentManifest{ocispec.Descriptor{MediaType: child.MediaType, Digest: d.Digest}, b})
		sent = append(sent, d.Digest)
	}
	if !parsed.IsIndex() {
		p.add(parsed)
	}
	desc.MediaType = parsed.MediaType
	if p.sparse && p.o.Reduce {
		if b, err = reduce(b, sent); err != nil {
			return fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
		desc.Digest, desc.Size = digest.FromBytes(b), int64(len(b))
		p.sparse = false
	}
	p.manifests = append(p.manifests, sentManifest{desc, b})
	return nil
}

// reduce drops all manifests but keep from an index, and changes nothing else.
func reduce(index []byte, keep []digest.Digest) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(index, &fields); err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(fields["manifests"], &entries); err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e json.RawMessage) bool {
		var d ocispec.Descriptor
		return json.Unmarshal(e, &d) != nil || !slices.Contains(keep, d.Digest)
	})
	var err error
	if fields["manifests"], err = json.Marshal(entries); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func (p *push) add(m *Parsed) {
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if _, ok := p.wanted[d.Digest]; !ok {
			p.wanted[d.Digest] = d
			p.order = append(p.order, d)
			p.meter.total += d.Size
		}
	}
}

func (p *push) open(ctx context.Context, d digest.Digest) ([]byte, error) {
	f, err := p.src.OpenBlob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxManifest+1))
	if err == nil && len(b) > MaxManifest {
		err = fmt.Errorf("it has more than the %d bytes that registries take; an archive, made with sealer save, has no such limit: %w", MaxManifest, ErrUnsupported)
	}
	return b, err
}

func (p *push) top() sentManifest { return p.manifests[len(p.manifests)-1] }

// remember notes in the record that the target has everything of the push.
func (p *push) remember() {
	var all []digest.Digest
	for _, m := range p.manifests {
		all = append(all, m.Digest)
	}
	for _, d := range p.order {
		all = append(all, d.Digest)
	}
	p.record.hold(p.t.key(), p.top().Digest, all)
}
