package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"
)

// target is a repository at a host: a reference after registries.conf.
type target struct {
	host       *host
	repository string
}

func (t target) String() string { return t.host.name + "/" + t.repository }

// request is one request in the protocol. It may be sent several times.
type request struct {
	method string
	path   string // with query; or an absolute URL on t's host
	header http.Header
	scope  string   // the access that the token must allow; "" for none
	body   *os.File // sent whole by sendfile: it stays a file, with its length set
	bytes  []byte   // a small body instead
	size   int64    // of body
	ok     []int    // successful answers; nil means 200
}

// pullScope and pushScope return scopes of the distribution project's token
// specification.
func pullScope(repository string) string { return "repository:" + repository + ":pull" }
func pushScope(repository string) string { return "repository:" + repository + ":pull,push" }

// do sends r, with retries. The caller closes the answer's body.
func (c *Client) do(ctx context.Context, t target, r request) (*http.Response, error) {
	var resp *http.Response
	err := c.retry(ctx, func(int) (bool, error) {
		var err error
		resp, err = c.once(ctx, t, r)
		return false, err
	})
	return resp, err
}

// retry calls attempt until it succeeds, fails permanently, or has failed more
// than c.retries times in a row. An attempt that made progress resets the count,
// and so does a 429 from a host that served other requests since the last one. A
// host that never answered gets one retry, and so does one that stalled without a
// gain: a registry that drips bytes must not take c.retries times Options.Stall.
//
// Between attempts retry waits: doubling, with jitter so that many transfers do
// not come back at one moment, and at least as long as the registry asks.
func (c *Client) retry(ctx context.Context, attempt func(n int) (progressed bool, err error)) error {
	failed, stalled := 0, 0
	var served int64
	for n := 0; ; n++ {
		progressed, err := attempt(n)
		if err == nil {
			return nil
		}
		var status *statusError
		if errors.As(err, &status) && status.status == http.StatusTooManyRequests {
			progressed = progressed || status.served > served
			served = status.served
		}
		if progressed {
			failed, stalled = 0, 0
		}
		retries := c.retries
		var unreached unreachedError
		if errors.As(err, &unreached) {
			retries = min(retries, 1)
		}
		var stall stallError
		if errors.As(err, &stall) && !stall.gained {
			if stalled++; stalled > 1 || stall.final {
				return err
			}
		}
		if failed++; failed > retries || !transient(ctx, err) {
			return err
		}
		wait := c.o.Backoff << min(failed-1, 6)
		wait = wait/2 + rand.N(wait/2+1)
		if status != nil {
			wait = max(wait, status.retryAfter)
		}
		level := slog.LevelDebug
		if wait >= longPause {
			level = slog.LevelWarn // else a user takes the pause for a program that hangs
		}
		c.log.Log(ctx, level, "transient failure, trying again", "error", err, "in", wait.Round(time.Second/10))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once sends r one time, with the authentication that the host wants, and follows
// redirects.
func (c *Client) once(ctx context.Context, t target, r request) (*http.Response, error) {
	base, err := c.base(ctx, t.host)
	if err != nil {
		return nil, err
	}
	auth, err := c.authorization(ctx, t, r.scope, "")
	if err != nil {
		return nil, err
	}
	for refused := false; ; refused = true {
		resp, err := c.send(ctx, t, base, auth, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusUnauthorized && !refused {
			t.host.auth.learn(resp)
			refusal := newStatusError(resp)
			resp.Body.Close() // frees its slot, which the request for a token needs
			again, err := c.authorization(ctx, t, r.scope, auth)
			switch {
			case err != nil:
				return nil, err
			case again == "":
				return nil, refusal
			case r.body != nil:
				return nil, errRefreshed // the file has been read: the caller starts the upload again
			}
			auth = again
			continue
		}
		if isRedirect(resp.StatusCode) && (r.method == http.MethodGet || r.method == http.MethodHead) {
			if resp, err = c.follow(ctx, t, r, resp); err != nil {
				return nil, err
			}
		}
		if !wanted(r.ok, resp.StatusCode) {
			defer resp.Body.Close()
			err := newStatusError(resp)
			if err.status == http.StatusTooManyRequests && resp.Request.URL.Host == t.host.addr {
				err.served = t.host.served.Load()
				t.host.rest(err.retryAfter)
			}
			return nil, err
		}
		t.host.served.Add(1)
		return resp, nil
	}
}

func wanted(ok []int, status int) bool {
	if ok == nil {
		return status == http.StatusOK
	}
	return slices.Contains(ok, status)
}

func (c *Client) send(ctx context.Context, t target, base, auth string, r request) (*http.Response, error) {
	home, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", t.host.name, err)
	}
	u, err := home.Parse(r.path)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", t.host.name, permanentError{err})
	}
	to := t.host
	if u.Host == to.addr {
		u.Scheme = home.Scheme // a registry behind a proxy may not know that clients use TLS
	} else if to, err = c.linkedHost(to, u); err != nil {
		return nil, permanentError{err}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return nil, permanentError{err}
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", c.o.UserAgent)
	switch {
	case to != t.host:
		req.Header.Del("Authorization")
	case auth != "":
		req.Header.Set("Authorization", auth)
	}
	switch {
	case r.body != nil:
		req.Body, req.ContentLength = r.body, r.size
	case len(r.bytes) > 0:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.bytes)), int64(len(r.bytes))
	}
	return c.exchange(ctx, to, req)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow follows redirects itself instead of net/http: the target gets neither
// the Authorization header nor the trust settings of the registry that named it.
func (c *Client) follow(ctx context.Context, t target, r request, resp *http.Response) (*http.Response, error) {
	at, from := t.host, resp.Request.URL
	for range 5 {
		resp.Body.Close()
		u, err := from.Parse(resp.Header.Get("Location"))
		if err != nil || u.Host == "" {
			return nil, permanentError{fmt.Errorf("%s: it redirects to no URL", describe(r.method, from))}
		}
		if at, err = c.linkedHost(at, u); err != nil {
			return nil, permanentError{err}
		}
		req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
		if err != nil {
			return nil, permanentError{err}
		}
		for _, k := range []string{"Accept", "Range"} {
			if v := r.header.Get(k); v != "" {
				req.Header.Set(k, v)
			}
		}
		req.Header.Set("User-Agent", c.o.UserAgent)
		if resp, err = c.exchange(ctx, at, req); err != nil {
			return nil, err
		}
		if !isRedirect(resp.StatusCode) {
			return resp, nil
		}
		from = u
	}
	resp.Body.Close()
	return nil, permanentError{fmt.Errorf("%s: too many redirects", describe(r.method, from))}
}

// exchange sends req over h's connections. It holds one of the slots for requests
// until the answer's body is closed. A transfer that stalls is ended with
// ErrStalled.
func (c *Client) exchange(ctx context.Context, h *host, req *http.Request) (*http.Response, error) {
	if err := h.rested(ctx); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatched(c.o.Stall)
	w.release = sync.OnceFunc(func() { <-c.slots; cancel(nil) })
	w.cause = func(err error) error {
		// Return the cause of the cancellation instead of "context canceled".
		if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) {
			return cause
		}
		return err
	}
	w.timer = time.AfterFunc(w.stall, func() { cancel(stallError{after: w.stall, gained: w.gained.Load()}) })
	sent := func() {}
	if req.ContentLength > 0 {
		w.timer.Stop()
		sent = c.watch(ctx, req, cancel)
	}
	req = req.WithContext(ctx)
	resp, err := h.rt.RoundTrip(req)
	sent()
	if err != nil {
		w.timer.Stop()
		err = h.untrusted(h.unreached(plainHTTP(w.cause(err))))
		w.release()
		return nil, fmt.Errorf("%s: %w", describe(req.Method, req.URL), err)
	}
	h.answered.Store(true)
	c.log.Debug("request", "sent", describe(req.Method, req.URL), "status", resp.StatusCode)
	w.body, w.length = resp.Body, resp.ContentLength
	resp.Body = w
	return resp, nil
}
