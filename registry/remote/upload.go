package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// blobs sends the blobs that are not there and that the target lacks.
func (p *push) blobs(ctx context.Context) error {
	todo := slices.DeleteFunc(slices.Clone(p.order), func(d ocispec.Descriptor) bool { return p.there[d.Digest] })
	for _, d := range p.order {
		if p.there[d.Digest] {
			p.meter.add(Event{Op: "exists", Digest: d.Digest, Size: d.Size}, d.Size)
		}
	}
	todo, err := p.probe(ctx, todo)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transfer(todo, p.c.o.Jobs, func(d ocispec.Descriptor) {
		if ctx.Err() != nil {
			return
		}
		if err := p.settle(ctx, d); err != nil {
			cancel(err)
		}
	})
	return context.Cause(ctx)
}

// settle makes sure that the target has d, and reports it.
func (p *push) settle(ctx context.Context, d ocispec.Descriptor) error {
	op, err := p.blob(ctx, d)
	if err != nil {
		return fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	p.settled(d, op)
	return nil
}

func (p *push) settled(d ocispec.Descriptor, op string) {
	p.record.add(p.t.key(), d.Digest)
	p.meter.add(Event{Op: op, Digest: d.Digest, Size: d.Size}, d.Size)
}

// probe finds out whether the registry mounts, if that is not known and there is
// more than one blob in todo. A registry that does answers 201 to a request to
// mount a blob into its own repository if it has it, and else 202 with the URL for
// an upload: one request in place of HEAD and POST. A registry that ignores the
// request answers 202 each time. To tell them apart, probe sends the smallest blob
// and asks again. It returns the other blobs.
func (p *push) probe(ctx context.Context, todo []ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	host := p.t.host.name
	if len(todo) < 2 || p.record.mountSupport(host) != mountUnknown {
		return todo, nil
	}
	least := -1
	for i, d := range todo {
		if d.Size <= smallBlob && p.from(d.Digest) == "" && (least < 0 || d.Size < todo[least].Size) {
			least = i
		}
	}
	if least < 0 {
		return todo, nil
	}
	d := todo[least]
	own := p.t.repository
	location, err := p.begin(ctx, d, own)
	if refused(ctx, err) {
		p.record.setMountSupport(host, mountIgnored)
		return todo, nil
	}
	op := "exists"
	if err == nil && location != "" {
		op = "push"
		if err = p.send(ctx, d, upload{location: location}); err == nil {
			location, err = p.begin(ctx, d, own)
		}
	}
	switch {
	case err == nil && location == "":
		p.record.setMountSupport(host, mountWorks)
	case err == nil, refused(ctx, err):
		p.record.setMountSupport(host, mountIgnored)
	default:
		return nil, fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	p.settled(d, op)
	return slices.Delete(slices.Clone(todo), least, least+1), nil
}

// refused reports whether err is a registry's answer that another attempt would
// only repeat.
func refused(ctx context.Context, err error) bool {
	return errors.As(err, new(*statusError)) && !transient(ctx, err)
}

// blob makes sure that the target has d, and returns the Op of the Event for it.
func (p *push) blob(ctx context.Context, d ocispec.Descriptor) (string, error) {
	// Another push of this run may be sending d to another repository, from
	// which it can be mounted then.
	busy, finish := p.record.claim(p.t.host.name, d.Digest)
	for busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		busy, finish = p.record.claim(p.t.host.name, d.Digest)
	}
	defer finish()
	if p.record.holds(p.t.key(), d.Digest) {
		return "exists", nil
	}
	if u := (upload{location: p.record.pending(p.t.key(), d)}); u.location != "" {
		if err := p.status(ctx, d, &u); err == nil && u.location != "" {
			return "push", p.send(ctx, d, u)
		}
	}
	if from := p.from(d.Digest); from != "" {
		op, location, err := p.mount(ctx, d, from)
		if op != "" || err != nil {
			return op, err
		}
		if location != "" {
			return "push", p.send(ctx, d, upload{location: location})
		}
	}
	if p.record.mountSupport(p.t.host.name) == mountWorks {
		location, err := p.begin(ctx, d, p.t.repository)
		switch {
		case err == nil && location == "":
			return "exists", nil
		case err == nil:
			return "push", p.send(ctx, d, upload{location: location})
		case !refused(ctx, err):
			return "", err
		}
	}
	if ok, err := p.exists(ctx, d); ok || err != nil {
		return "exists", err
	}
	return "push", p.send(ctx, d, upload{})
}

// from returns a repository of the target's registry to mount d from, or "".
func (p *push) from(d digest.Digest) string {
	for _, repository := range []string{p.mounts[d], p.record.source(p.t.key(), d), p.o.MountFrom[d]} {
		if repository != "" && repository != p.t.repository && p.record.useful(repositoryKey{p.t.host.name, repository}) {
			return repository
		}
	}
	return ""
}

// mount asks the registry to mount d from the repository from. It returns the Op
// if the target has d then, else the URL of an upload if the registry began one.
func (p *push) mount(ctx context.Context, d ocispec.Descriptor, from string) (op, location string, err error) {
	location, err = p.begin(ctx, d, from)
	if err != nil && !refused(ctx, err) && !errors.Is(err, ErrUnauthorized) {
		return "", "", err
	}
	p.record.mounted(repositoryKey{p.t.host.name, from}, err == nil && location == "")
	switch {
	case err != nil: // the user may lack the right to read there
		return "", "", nil
	case location == "":
		return "mount", "", nil
	}
	if ok, err := p.exists(ctx, d); ok || err != nil {
		return "exists", "", err
	}
	return "", location, nil
}

// exists asks for d by HEAD. A registry that knows no HEAD gets the blob.
func (p *push) exists(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	resp, err := p.c.do(ctx, p.t, request{
		method: http.MethodHead,
		path:   "/v2/" + p.t.repository + "/blobs/" + d.Digest.String(),
		scope:  pushScope(p.t.repository),
		ok:     []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusNotImplemented},
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

// begin begins an upload of d and returns its URL, or "" when the registry has
// mounted d from the repository from.
func (p *push) begin(ctx context.Context, d ocispec.Descriptor, from string) (location string, err error) {
	err = p.c.retry(ctx, func(int) (bool, error) {
		location, err = p.start(ctx, d, from)
		return false, err
	})
	return location, err
}

// start is one attempt of begin.
func (p *push) start(ctx context.Context, d ocispec.Descriptor, from string) (string, error) {
	q := request{
		method: http.MethodPost,
		path:   "/v2/" + p.t.repository + "/blobs/uploads/",
		scope:  pushScope(p.t.repository),
		ok:     []int{http.StatusAccepted, http.StatusCreated},
	}
	if from != "" {
		q.path += "?" + url.Values{"mount": {d.Digest.String()}, "from": {from}}.Encode()
	}
	if from != "" && from != p.t.repository {
		q.scope += " " + pullScope(from)
	}
	resp, err := p.c.once(ctx, p.t, q)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusCreated && from != "" {
		return "", nil
	}
	return uploadURL(resp)
}

// uploadURL returns the URL of an upload from the Location of an answer.
func uploadURL(resp *http.Response) (string, error) {
	u, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return "", permanentError{fmt.Errorf("%s: the answer has no Location", describe(resp.Request.Method, resp.Request.URL))}
	}
	return u.String(), nil
}

// sendManifests puts the manifests that are not there: children by digest
// first, then the top one by its tag.
func (p *push) sendManifests(ctx context.Context) error {
	children := p.manifests[:len(p.manifests)-1]
	g, gctx := errgroup.WithContext(ctx)
	for _, m := range children {
		if !p.there[m.Digest] {
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

func (p *push) manifest(ctx context.Context, m sentManifest, name string) error {
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
	p.record.add(p.t.key(), m.Digest)
	p.meter.add(Event{Op: "manifest", Digest: m.Digest}, 0)
	return nil
}
