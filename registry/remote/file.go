package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// File returns the file at an http(s) URL, which has at most limit bytes. The
// rules of registries hold for its host: certificates, plain http only where the
// host is said to be insecure, the credentials of the auth files, no credential
// for the target of a redirect. The error wraps ErrUnsupported for a URL with a
// password in it, and for a file that is too large.
func (c *Client) File(ctx context.Context, rawURL string, limit int64) ([]byte, error) {
	return c.FileWith(ctx, rawURL, limit, Access{})
}

// An Access says how the host of a file is asked, before the rules of registries.
type Access struct {
	Username, Password        string // "" are those of the auth files
	CAFile, CertFile, KeyFile string // PEM; "" are those of certs.d
	Unverified                bool   // the server's certificate is not checked; plain http stays refused
}

// FileWith is File with an Access for the URL's host. A password of it is sent at once,
// as helm does it: some repositories refuse without a challenge.
func (c *Client) FileWith(ctx context.Context, rawURL string, limit int64, a Access) ([]byte, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("no http(s) URL: %w", ErrUnsupported)
	case u.User != nil:
		return nil, fmt.Errorf("a URL with a user: credentials belong into an auth file, by sealer login %s: %w", u.Host, ErrUnsupported)
	}
	conf, err := sysregistriesv2.FindRegistry(c.sys, u.Host)
	if err != nil {
		return nil, fmt.Errorf("read registries.conf: %w", err)
	}
	if conf != nil && conf.Blocked {
		return nil, fmt.Errorf("%s: %w", u.Host, ErrBlocked)
	}
	files := tlsFiles{a.CAFile, a.CertFile, a.KeyFile, a.Unverified}
	if u.Scheme == "http" {
		files = tlsFiles{}
	}
	h, err := c.hostWith(u.Host, conf != nil && conf.Insecure, files)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !h.insecure {
		return nil, &TrustError{u.Host, fmt.Errorf("%s: %w", u.Host, ErrPlainHTTP)}
	}
	// The whole URL: a path that begins with two slashes is one of another host.
	whole := url.URL{Scheme: u.Scheme, Host: h.addr, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	t, q := target{host: h}, request{method: http.MethodGet, path: whole.String(), header: http.Header{}}
	if a.Username != "" || a.Password != "" {
		cred := Credential{Registry: u.Host, Username: a.Username, Password: a.Password}
		q.header.Set("Authorization", basic(cred))
		c = c.As(&cred)
	}
	b, _, err := c.readAll(ctx, t, q, limit)
	if !errors.Is(err, ErrUnauthorized) {
		return b, err
	}
	// Some repositories refuse without a challenge: helm tells them the password
	// at once.
	cred, credErr := c.credentials(t)
	if credErr != nil || cred == nil || cred.Username == "" {
		return nil, err
	}
	q.header.Set("Authorization", basic(*cred))
	b, _, err = c.readAll(ctx, t, q, limit)
	return b, err
}

// readAll sends q and reads the answer, of at most limit bytes. A transfer that
// breaks off begins again.
func (c *Client) readAll(ctx context.Context, t target, q request, limit int64) (b []byte, header http.Header, err error) {
	err = c.retry(ctx, func(int) (bool, error) {
		resp, err := c.once(ctx, t, q)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		op := describe(q.method, resp.Request.URL)
		if resp.ContentLength > limit {
			return false, fmt.Errorf("%s: %d bytes, the limit is %d: %w", op, resp.ContentLength, limit, ErrUnsupported)
		}
		b, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
		switch {
		case err != nil:
			return len(b) >= progress, fmt.Errorf("%s: %w", op, truncated(err))
		case int64(len(b)) > limit:
			return false, fmt.Errorf("%s: more than %d bytes: %w", op, limit, ErrUnsupported)
		}
		header = resp.Header
		return false, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return b, header, nil
}
