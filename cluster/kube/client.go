package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Limits on the answers of a server.
const (
	maxAnswer = 64 << 20 // bytes of one answer
	maxPages  = 10_000   // of one list
	pageSize  = 500      // objects asked for at once
)

// A Client asks one API server. It is safe for concurrent use.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// New returns a client for c. It connects with the first request.
func New(c Config) (*Client, error) {
	t := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	if len(c.CA) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("certificate authority: no certificate in it")
		}
	}
	if len(c.Certificate) > 0 {
		pair, err := tls.X509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	proxy := http.ProxyFromEnvironment
	if c.Proxy != "" {
		u, err := url.Parse(c.Proxy)
		if err != nil {
			return nil, errors.New("proxy-url: want a URL") // its error quotes a password
		}
		proxy = http.ProxyURL(u)
	}
	return &Client{server: c.Server, token: c.Token, http: &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{TLSClientConfig: t, Proxy: proxy, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// A StatusError is an answer that is no success.
type StatusError struct {
	Method, Path string
	Code         int    // of HTTP
	Message      string // the server's own, at most 500 characters; may be empty
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += fmt.Sprintf(": %q", e.Message)
	}
	return text
}

// Do sends body as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil. contentType is that of body; empty is application/json.
// The error is a *StatusError when the server answered with no success.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body, out any) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		r = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, c.server+path, r)
	if err != nil {
		return err
	}
	q.Header.Set("Accept", "application/json")
	if body != nil {
		q.Header.Set("Content-Type", contentType)
		if contentType == "" {
			q.Header.Set("Content-Type", "application/json")
		}
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	a, err := c.http.Do(q)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err := errors.Join(err, a.Body.Close()); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if a.StatusCode < 200 || a.StatusCode > 299 {
		return &StatusError{Method: method, Path: path, Code: a.StatusCode, Message: message(b)}
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, maxAnswer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// message returns the message of a Status object, cut after 500 bytes.
func message(b []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(b, &status) != nil {
		return ""
	}
	return status.Message[:min(len(status.Message), 500)]
}

// List calls each with every object of a collection, as /api/v1/pods is one of
// all namespaces. It asks page by page; a server that never ends the list, or
// whose list changes so much that the pages do not fit together (410 Gone), is
// an error.
func (c *Client) List(ctx context.Context, path string, each func(object json.RawMessage) error) error {
	next := ""
	for range maxPages {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), "", nil, &page); err != nil {
			return err
		}
		for _, o := range page.Items {
			if err := each(o); err != nil {
				return fmt.Errorf("list %s: %w", path, err)
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		if page.Metadata.Continue == next {
			return fmt.Errorf("list %s: the server sends the same page again", path)
		}
		next = page.Metadata.Continue
	}
	return fmt.Errorf("list %s: more than %d pages", path, maxPages)
}
