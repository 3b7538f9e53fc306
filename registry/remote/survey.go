package remote

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

const (
	// fewBlobs is the number of blobs that are not worth a further request for a
	// manifest.
	fewBlobs = 2
	// confirmed and siblings limit the manifests that a push asks for: of the
	// record, and of other tags.
	confirmed = 3
	siblings  = 2
)

// survey fills p.there from the manifests that the target has, with as few
// requests as it can, and reports whether the target is complete: its reference
// names the pushed manifest.
//
// It reads the manifest that the reference names. If that is the pushed one, it asks
// for the manifests below it, and for nothing else. If another one leaves many blobs in
// doubt, it asks for the pushed manifest by its digest, which another tag may
// name, then for the manifests that the record lists, for the base of the
// options, and for the manifests of the tags that are most like the pushed one. A
// repository that the record does not know is asked for its tags first: a new
// repository costs that one request.
func (p *push) survey(ctx context.Context) (complete bool, err error) {
	if p.o.Verify {
		p.record.doubt(p.t.key())
		return false, nil
	}
	seen := p.record.manifests(p.t.key())
	var tags []string
	listed := len(seen) == 0 && p.to.Tag != ""
	if listed {
		var whole bool
		tags, whole, err = p.tags(ctx)
		if errors.Is(err, ErrNotFound) {
			return false, p.base(ctx)
		}
		listed = err == nil
		if err != nil || !whole || slices.Contains(tags, p.to.Tag) {
			complete, err = p.named(ctx)
		}
	} else {
		complete, err = p.named(ctx)
	}
	if complete || p.lost || err != nil {
		return complete, err
	}
	if p.few() {
		return false, nil
	}
	if len(tags) > 0 || slices.ContainsFunc(seen, func(m manifestRecord) bool { return m.Digest == p.top().Digest }) {
		if ok, err := p.has(ctx, p.t, p.top().Digest); ok || err != nil {
			if ok {
				_, err = p.whole(ctx)
			}
			return false, err
		}
	}
	if err := p.recorded(ctx, seen); err != nil {
		return false, err
	}
	if err := p.base(ctx); err != nil {
		return false, err
	}
	return false, p.siblings(ctx, tags, listed)
}

// missing returns the number of blobs that are not known to be there.
func (p *push) missing() int {
	n := 0
	for _, d := range p.order {
		if !p.there[d.Digest] {
			n++
		}
	}
	return n
}

// few reports whether so few blobs are in doubt that asking for them costs no
// more than asking for manifests.
func (p *push) few() bool { return p.missing() <= max(fewBlobs, len(p.order)/10) }

// whole notes what the target, which has the pushed manifest, has of all that it
// lists, and reports whether that is all. A registry can lose manifests that no tag
// names; then nothing else that it has tells which blobs are left.
func (p *push) whole(ctx context.Context) (bool, error) {
	lost, err := p.confirm(ctx, p.manifests[:len(p.manifests)-1])
	if err != nil {
		return false, err
	}
	if p.lost = len(lost) > 0; p.lost {
		p.c.log.Warn("the registry has lost manifests of the image: they are sent again, with the blobs that it lacks",
			"image", p.to.String(), "lost", len(lost), "first", lost[0].String())
		p.record.doubt(p.t.key())
		return false, nil
	}
	top := p.top()
	p.listed(top.MediaType, top.bytes)
	return true, nil
}

// confirm asks for each of the manifests, notes those that the target has with
// what they list, and returns the others.
func (p *push) confirm(ctx context.Context, manifests []sentManifest) (lost []digest.Digest, err error) {
	has := make([]bool, len(manifests))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(p.c.o.Jobs)
	for i, m := range manifests {
		g.Go(func() (err error) {
			has[i], err = p.has(gctx, p.t, m.Digest)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, m := range manifests {
		if !has[i] {
			lost = append(lost, m.Digest)
			continue
		}
		p.there[m.Digest] = true
		p.listed(m.MediaType, m.bytes)
	}
	return lost, nil
}

// listed notes that the target has the blobs of a manifest, which read has parsed.
func (p *push) listed(mediaType string, b []byte) {
	m, err := ParseManifest(mediaType, b)
	if err != nil || m.IsIndex() {
		return
	}
	p.there[m.Config.Digest] = true
	for _, l := range m.Layers {
		p.there[l.Digest] = true
	}
}

// named reads the manifest that the reference names now. A target that has none,
// or one that cannot be relied on, tells nothing.
func (p *push) named(ctx context.Context) (complete bool, err error) {
	top := p.top().Digest
	d, b, err := p.c.manifest(ctx, p.t, p.to, top) // conditional: a manifest may have thousands of entries
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnsupported), errors.Is(err, ErrDigest):
		return false, nil
	case err != nil:
		return false, err
	case d.Digest == top:
		return p.whole(ctx)
	}
	return false, p.list(ctx, p.t, d, b, func(d digest.Digest) { p.there[d] = true })
}

// list calls there for the manifest d with the bytes b in the repository t, and
// for everything that it lists. The manifests of an index are read from the
// source if that has them.
func (p *push) list(ctx context.Context, t target, d ocispec.Descriptor, b []byte, there func(digest.Digest)) error {
	top, err := ParseManifest(d.MediaType, b)
	if err != nil {
		return err
	}
	there(d.Digest)
	parsed := []*Parsed{top}
	for _, m := range top.Manifests {
		b, err := p.open(ctx, m.Digest)
		if err != nil {
			r := p.to
			r.Digest = m.Digest
			_, b, err = p.c.manifest(ctx, t, r, "")
		} else if ok, hasErr := p.has(ctx, t, m.Digest); !ok {
			err = errors.Join(hasErr, ErrNotFound)
		}
		if err != nil {
			continue // the index is sparse
		}
		if child, err := ParseManifest(m.MediaType, b); err == nil {
			there(m.Digest)
			parsed = append(parsed, child)
		}
	}
	for _, o := range parsed {
		if !o.IsIndex() {
			there(o.Config.Digest)
		}
		for _, l := range o.Layers {
			there(l.Digest)
		}
	}
	return nil
}

// has reports whether t has the manifest d. It asks by HEAD, and by GET where the
// registry knows no HEAD.
func (p *push) has(ctx context.Context, t target, d digest.Digest) (bool, error) {
	r := p.to
	r.Digest = d
	q := manifestRequest(http.MethodHead, t, r)
	q.ok = []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	resp, err := p.c.do(ctx, t, q)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return true, nil
	}
	_, _, err = p.c.manifest(ctx, t, r, "")
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDigest) || errors.Is(err, ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// recorded asks for those manifests of the record that list most of what is in
// doubt.
func (p *push) recorded(ctx context.Context, seen []manifestRecord) error {
	for range confirmed {
		best, most := -1, fewBlobs
		for i, m := range seen {
			if n := p.covers(m); n > most {
				best, most = i, n
			}
		}
		if best < 0 || p.few() {
			return nil
		}
		m := seen[best]
		seen = slices.Delete(seen, best, best+1)
		ok, err := p.has(ctx, p.t, m.Digest)
		if err != nil {
			return err
		}
		if !ok {
			p.record.forget(p.t.key(), m.Digest)
			continue
		}
		held := map[blobKey]bool{}
		m.each(func(b blobKey) { held[b] = true })
		for _, d := range p.order {
			p.there[d.Digest] = p.there[d.Digest] || held[keyOf(d.Digest)]
		}
		children := slices.DeleteFunc(slices.Clone(p.manifests[:len(p.manifests)-1]), func(s sentManifest) bool {
			return p.there[s.Digest] || !held[keyOf(s.Digest)]
		})
		if _, err := p.confirm(ctx, children); err != nil {
			return err
		}
	}
	return nil
}

// covers returns how many of the blobs in doubt m lists.
func (p *push) covers(m manifestRecord) int {
	held := map[blobKey]bool{}
	m.each(func(b blobKey) { held[b] = true })
	n := 0
	for _, d := range p.order {
		if !p.there[d.Digest] && held[keyOf(d.Digest)] {
			n++
		}
	}
	return n
}

// base reads the manifest of the options' base. In another repository its blobs
// can be mounted.
func (p *push) base(ctx context.Context) error {
	if p.o.Base.Repository == "" || p.few() {
		return nil
	}
	t, err := p.c.destination(p.o.Base)
	if err != nil || t.host.name != p.t.host.name {
		return err
	}
	d, b, err := p.c.manifest(ctx, t, p.o.Base, "")
	if err != nil {
		p.c.log.Warn("the base of the push cannot be read", "base", p.o.Base.String(), "error", err)
		return ctx.Err()
	}
	there := func(d digest.Digest) { p.there[d] = true }
	if t.key() != p.t.key() {
		there = func(d digest.Digest) { p.mounts[d] = t.repository }
	}
	return p.list(ctx, t, d, b, there)
}

// siblings reads the manifests of the tags that are most like the pushed one.
func (p *push) siblings(ctx context.Context, tags []string, listed bool) error {
	if p.few() || p.to.Tag == "" {
		return nil
	}
	if !listed {
		var err error
		if tags, _, err = p.tags(ctx); err != nil {
			return ctx.Err() // it may not be allowed: then each blob is asked for
		}
	}
	for _, tag := range nearest(tags, p.to.Tag) {
		if p.few() {
			return nil
		}
		r := p.to
		r.Tag = tag
		d, b, err := p.c.manifest(ctx, p.t, r, "")
		if err == nil {
			err = p.list(ctx, p.t, d, b, func(d digest.Digest) { p.there[d] = true })
		}
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// tags returns the first page of the target's tags, and whether they are all. It does not try
// again: not every registry lists tags.
func (p *push) tags(ctx context.Context) (tags []string, whole bool, err error) {
	tags, next, err := p.c.withoutRetry().tagPage(ctx, p.t, firstTags(p.t))
	return tags, err == nil && next == "" && len(tags) < tagsPage, err
}

// nearest returns the tags most like tag, without tag itself: those with the
// longest common beginning, and of these the newest, as far as numbers tell.
func nearest(tags []string, tag string) []string {
	common := func(s string) int {
		n := 0
		for n < len(s) && n < len(tag) && s[n] == tag[n] {
			n++
		}
		return n
	}
	tags = slices.DeleteFunc(slices.Clone(tags), func(s string) bool {
		return s == tag || s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
		})
	})
	slices.SortStableFunc(tags, func(a, b string) int {
		if d := common(b) - common(a); d != 0 {
			return d
		}
		if len(a) != len(b) { // v1.10 is newer than v1.9
			return len(b) - len(a)
		}
		return strings.Compare(b, a)
	})
	return tags[:min(len(tags), siblings)]
}
