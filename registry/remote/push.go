package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/registry/ref"
)

// PushOptions steers Push. The zero value works.
type PushOptions struct {
	// Sparse allows an index whose manifests are not all in the source: those
	// that are not there are not sent. Where the registry refuses such an index
	// the error wraps ErrSparse.
	Sparse bool
	// Reduce sends in place of a sparse index one of the manifests that are
	// there. Its digest is another.
	Reduce bool
	// MountFrom gives for a blob the repositories of the target's registry that
	// may hold it already: Push asks the registry to mount it from the first.
	MountFrom map[digest.Digest][]string
	Progress  func(Event) // called concurrently; nil for none
}

// Push sends the manifest or index desc, and all that it names and the target
// lacks, to the repository of to, and tags it there where to has a tag. The
// source is trusted: nothing is hashed again, the registry does that.
//
// What the manifest that to names now lists is there already, so only the
// other blobs are asked for: 0.2 s instead of 0.95 for an unchanged image of
// 127 blobs at 30 ms.
func (c *Client) Push(ctx context.Context, src Source, desc ocispec.Descriptor, to ref.Reference, o PushOptions) error {
	_, err := c.PushImage(ctx, src, desc, to, o)
	return err
}

// PushImage is Push, and returns the descriptor of what the target has: desc,
// but for PushOptions.Reduce.
func (c *Client) PushImage(ctx context.Context, src Source, desc ocispec.Descriptor, to ref.Reference, o PushOptions) (ocispec.Descriptor, error) {
	fail := func(err error) (ocispec.Descriptor, error) {
		return ocispec.Descriptor{}, fmt.Errorf("push %s: %w", to, err)
	}
	t, err := c.destination(to)
	if err != nil {
		return fail(err)
	}
	p := &push{c: c, t: t, src: src, to: to, o: o, meter: meter{report: o.Progress, reference: to.String()}}
	if err := p.read(ctx, desc); err != nil {
		return fail(err)
	}
	there, err := p.listed(ctx)
	if err != nil {
		return fail(err)
	}
	top := p.top().Descriptor
	if there[top.Digest] && there[digest.Digest(to.Tag)] {
		return top, nil // the tag points there
	}
	if err := p.blobs(ctx, there); err != nil {
		return fail(err)
	}
	err = p.sendManifests(ctx, there)
	if len(there) > 0 && errors.Is(err, errRejected) {
		// It may have lost what its own manifest lists: ask for everything.
		c.log.Debug("the target lacks what its manifest lists, asking for each blob", "error", err)
		if err = p.blobs(ctx, nil); err == nil {
			err = p.sendManifests(ctx, nil)
		}
	}
	if p.sparse && errors.Is(err, errRejected) {
		err = fmt.Errorf("%w: %w", ErrSparse, err)
	}
	if err != nil {
		return fail(err)
	}
	return top, nil
}

type push struct {
	c         *Client
	t         target
	src       Source
	to        ref.Reference
	o         PushOptions
	meter     meter
	manifests []content // children first
	wanted    []ocispec.Descriptor
	sparse    bool // the index lists manifests that are not sent
}

// content is a manifest that is sent.
type content struct {
	ocispec.Descriptor
	bytes []byte
}

// errRejected is a 400 or 404 to a manifest: the registry lacks what it names.
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
		if isIndex(d.MediaType) {
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
		p.manifests = append(p.manifests, content{ocispec.Descriptor{MediaType: child.MediaType, Digest: d.Digest}, b})
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
	p.manifests = append(p.manifests, content{desc, b})
	return nil
}

// reduce drops from an index all manifests but keep, and changes nothing else.
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
		if !slices.ContainsFunc(p.wanted, func(b ocispec.Descriptor) bool { return b.Digest == d.Digest }) {
			p.wanted = append(p.wanted, d)
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
		err = fmt.Errorf("more than %d bytes: %w", MaxManifest, ErrUnsupported)
	}
	return b, err
}

// listed returns the digests that the target is known to have: what the
// manifest names that it holds under the tag, or digest, that is pushed. The
// tag itself is in the set when it points at what is pushed.
func (p *push) listed(ctx context.Context) (map[digest.Digest]bool, error) {
	d, b, err := p.c.manifest(ctx, p.t, p.to, "")
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnsupported), errors.Is(err, ErrDigest):
		return nil, nil // nothing that could be relied on
	case err != nil:
		return nil, err
	}
	there := map[digest.Digest]bool{d.Digest: true, digest.Digest(p.to.Tag): d.Digest == p.top().Digest}
	if d.Digest == p.top().Digest {
		return there, nil
	}
	old, err := ParseManifest(d.MediaType, b)
	if err != nil {
		return nil, err
	}
	olds := []*Parsed{old}
	for _, m := range old.Manifests {
		r := p.to
		r.Digest = m.Digest
		_, b, err := p.c.manifest(ctx, p.t, r, "")
		if err != nil {
			continue // a sparse index
		}
		if child, err := ParseManifest(m.MediaType, b); err == nil {
			there[m.Digest] = true
			olds = append(olds, child)
		}
	}
	for _, o := range olds {
		if !o.IsIndex() {
			there[o.Config.Digest] = true
		}
		for _, l := range o.Layers {
			there[l.Digest] = true
		}
	}
	return there, nil
}

func (p *push) top() content { return p.manifests[len(p.manifests)-1] }

// blobs sends what the target lacks, largest first.
func (p *push) blobs(ctx context.Context, there map[digest.Digest]bool) error {
	todo := slices.DeleteFunc(slices.Clone(p.wanted), func(d ocispec.Descriptor) bool { return there[d.Digest] })
	for _, d := range p.wanted {
		if there[d.Digest] {
			p.meter.add(Event{Op: "exists", Digest: d.Digest, Size: d.Size}, d.Size)
		}
	}
	slices.SortStableFunc(todo, func(a, b ocispec.Descriptor) int { return cmp.Compare(b.Size, a.Size) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.c.o.Jobs)
	for _, d := range todo {
		g.Go(func() error {
			op, err := p.blob(ctx, d)
			if err != nil {
				return fmt.Errorf("blob %s: %w", d.Digest, err)
			}
			p.meter.add(Event{Op: op, Digest: d.Digest, Size: d.Size}, d.Size)
			return nil
		})
	}
	return g.Wait()
}

// blob sees to it that the target has d, and tells how.
func (p *push) blob(ctx context.Context, d ocispec.Descriptor) (string, error) {
	head := request{
		method: http.MethodHead,
		path:   "/v2/" + p.t.repository + "/blobs/" + d.Digest.String(),
		scope:  pushScope(p.t.repository),
	}
	resp, err := p.c.do(ctx, p.t, head)
	if err == nil {
		resp.Body.Close()
		return "exists", nil
	}
	if !errors.Is(err, ErrNotFound) {
		return "", err
	}
	op := "push"
	err = p.c.retry(ctx, func(n int) (bool, error) {
		from := ""
		if froms := p.o.MountFrom[d.Digest]; n == 0 && len(froms) > 0 {
			from = froms[0]
		}
		location, err := p.start(ctx, d, from)
		if err != nil && from != "" && !transient(ctx, err) {
			// The right to read there may be missing: send it then.
			location, err = p.start(ctx, d, "")
		}
		if err != nil {
			return false, err
		}
		if location == "" {
			op = "mount"
			return false, nil
		}
		return false, p.upload(ctx, d, location)
	})
	return op, err
}

// start begins an upload of d and returns where to send it; "" when the
// registry could mount d from the repository from.
func (p *push) start(ctx context.Context, d ocispec.Descriptor, from string) (string, error) {
	q := request{
		method: http.MethodPost,
		path:   "/v2/" + p.t.repository + "/blobs/uploads/",
		scope:  pushScope(p.t.repository),
		ok:     []int{http.StatusAccepted, http.StatusCreated},
	}
	if from != "" {
		q.path += "?" + url.Values{"mount": {d.Digest.String()}, "from": {from}}.Encode()
		q.scope += " " + pullScope(from)
	}
	resp, err := p.c.once(ctx, p.t, q)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		return "", nil
	}
	u, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return "", permanentError{fmt.Errorf("%s: the answer has no Location", describe(q.method, resp.Request.URL))}
	}
	query := u.Query()
	query.Set("digest", d.Digest.String())
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// upload sends d's file in one PUT: POST and PUT take 0.8 of the time of POST,
// PATCH and PUT. The body stays an *os.File whose length is set, or Go would
// not use sendfile: 0.22 s of CPU per GB instead of 1.0 and more.
func (p *push) upload(ctx context.Context, d ocispec.Descriptor, location string) error {
	f, err := p.src.OpenBlob(ctx, d.Digest)
	if err != nil {
		return sinkError{err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sinkError{err}
	}
	if info.Size() != d.Size {
		return sinkError{fmt.Errorf("the file has %d bytes, the manifest says %d: %w", info.Size(), d.Size, ErrDigest)}
	}
	q := request{
		method: http.MethodPut,
		path:   location,
		scope:  pushScope(p.t.repository),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
		ok:     []int{http.StatusCreated, http.StatusNoContent},
	}
	if d.Size > 0 {
		q.body, q.size = f, d.Size
	}
	resp, err := p.c.once(ctx, p.t, q)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// sendManifests puts the manifests that the target lacks: children by digest,
// then what the reference names, by its tag.
func (p *push) sendManifests(ctx context.Context, there map[digest.Digest]bool) error {
	children := p.manifests[:len(p.manifests)-1]
	g, gctx := errgroup.WithContext(ctx)
	for _, m := range children {
		if !there[m.Digest] {
			g.Go(func() error { return p.manifest(gctx, m, m.Digest.String()) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	name := p.to.Tag
	if name == "" {
		name = p.top().Digest.String()
	}
	return p.manifest(ctx, p.top(), name)
}

func (p *push) manifest(ctx context.Context, m content, name string) error {
	q := request{
		method: http.MethodPut,
		path:   "/v2/" + p.t.repository + "/manifests/" + name,
		scope:  pushScope(p.t.repository),
		header: http.Header{"Content-Type": {m.MediaType}},
		bytes:  m.bytes,
		ok:     []int{http.StatusCreated, http.StatusOK, http.StatusAccepted},
	}
	resp, err := p.c.do(ctx, p.t, q)
	var status *statusError
	if errors.As(err, &status) && (status.status == http.StatusBadRequest || status.status == http.StatusNotFound) {
		return fmt.Errorf("%w: %w", errRejected, err)
	}
	if err != nil {
		return err
	}
	resp.Body.Close()
	p.meter.add(Event{Op: "manifest", Digest: m.Digest}, 0)
	return nil
}
