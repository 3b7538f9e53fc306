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
	"strings"
	"sync"
	"time"
)

// authState is the authentication of one host: its last challenge, and the tokens
// got for it. A token is requested once for each scope, however many transfers
// need it, and again shortly before it expires, so that a copy may last longer
// than a token.
type authState struct {
	mu        *sync.Mutex
	challenge *challenge
	tokens    map[tokenKey]*token
}

type tokenKey struct {
	scope string
	user  string // of the credential of As; "" for the host's own
}

type token struct {
	mu      sync.Mutex // held while the token is fetched
	value   string     // the Authorization header
	expires time.Time
}

// challenge is a parsed WWW-Authenticate header, RFC 7235 and the distribution
// project's token specification.
type challenge struct {
	scheme  string // "basic" or "bearer"
	realm   string
	service string
}

func newAuthState() authState {
	return authState{mu: new(sync.Mutex), tokens: map[tokenKey]*token{}}
}

// learn keeps the challenge of a 401 answer. Bearer is preferred where both are
// offered.
func (a *authState) learn(resp *http.Response) {
	if resp.StatusCode != http.StatusUnauthorized {
		return
	}
	var found *challenge
	for _, h := range resp.Header.Values("WWW-Authenticate") {
		ch, ok := parseChallenge(h)
		if ok && (found == nil || ch.scheme == "bearer") {
			found = &ch
		}
	}
	if found == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.challenge = found
}

func (a *authState) get(key tokenKey) (*challenge, *token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.challenge == nil {
		return nil, nil
	}
	t := a.tokens[key]
	if t == nil {
		t = new(token)
		a.tokens[key] = t
	}
	return a.challenge, t
}

// parseChallenge reads one challenge: a scheme and its parameters, quoted or
// not.
func parseChallenge(h string) (challenge, bool) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(h), " ")
	ch := challenge{scheme: strings.ToLower(scheme)}
	for rest != "" {
		var key, val string
		key, rest, _ = strings.Cut(strings.TrimLeft(rest, " ,"), "=")
		if strings.HasPrefix(rest, `"`) {
			val, rest = unquote(rest)
		} else {
			val, rest, _ = strings.Cut(rest, ",")
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "realm":
			ch.realm = val
		case "service":
			ch.service = val
		}
	}
	return ch, ch.scheme == "basic" || ch.scheme == "bearer" && ch.realm != ""
}

// unquote reads a quoted-string at the start of s.
func unquote(s string) (val, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}

// authorization returns the Authorization header for a request to t's repository,
// or "" if the host has not asked for one. stale is a header that the host has
// refused; it is not returned again.
func (c *Client) authorization(ctx context.Context, t target, scope, stale string) (string, error) {
	key := tokenKey{scope: scope}
	if c.cred != nil {
		key.user = c.cred.Registry + "\x00" + c.cred.Username + "\x00" + c.cred.Password
	}
	ch, tok := t.host.auth.get(key)
	if ch == nil {
		return "", nil
	}
	tok.mu.Lock()
	defer tok.mu.Unlock()
	if tok.value != "" && tok.value != stale && time.Now().Before(tok.expires) {
		return tok.value, nil
	}
	cred, err := c.credentials(t)
	if err != nil {
		return "", err
	}
	if ch.scheme == "basic" {
		if cred == nil || cred.Username == "" {
			return "", fmt.Errorf("%w: registry %s wants a user and a password, and none is known", ErrUnauthorized, t.host.name)
		}
		tok.value, tok.expires = basic(*cred), time.Now().Add(24*time.Hour)
	} else {
		bearer, life, err := c.fetchToken(ctx, t.host, *ch, scope, cred)
		if err != nil {
			return "", err
		}
		tok.value, tok.expires = "Bearer "+bearer, time.Now().Add(life)
	}
	if tok.value == stale {
		return "", nil // the same credentials would be refused again
	}
	return tok.value, nil
}

// fetchToken requests a token from the server that ch names. The lifetime
// returned is shorter than the server's, so that a token does not expire in
// transit.
func (c *Client) fetchToken(ctx context.Context, h *host, ch challenge, scope string, cred *Credential) (string, time.Duration, error) {
	fail := func(err error) (string, time.Duration, error) {
		return "", 0, fmt.Errorf("get token for %s: %w", h.name, err)
	}
	u, err := url.Parse(ch.realm)
	if err != nil || u.Host == "" {
		return fail(permanentError{fmt.Errorf("the registry names %q as its token server", printable(ch.realm, 100))})
	}
	server, err := c.linkedHost(h, u)
	if err != nil {
		return fail(permanentError{err})
	}
	req, err := tokenRequest(ctx, u, ch, scope, cred)
	if err != nil {
		return fail(err)
	}
	req.Header.Set("User-Agent", c.o.UserAgent)
	resp, err := c.exchange(ctx, server, req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(newStatusError(resp))
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		// The decoder's error may quote the answer, and so the token.
		return fail(errors.New("the answer of the token server is not JSON, or cut off"))
	}
	value := cmp.Or(answer.Token, answer.AccessToken)
	if value == "" {
		return fail(permanentError{errors.New("the answer of the token server holds no token")})
	}
	life := time.Duration(cmp.Or(max(answer.ExpiresIn, 0), 60)) * time.Second // 60 is the specification's default
	return value, life - min(life/4, 15*time.Second), nil
}

// tokenRequest builds the request for a token: GET with basic authentication, or
// the OAuth 2 form for an identity token.
func tokenRequest(ctx context.Context, u *url.URL, ch challenge, scope string, cred *Credential) (*http.Request, error) {
	q := u.Query()
	if cred != nil && cred.Username == "" && cred.Password != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {cred.Password},
			"service": {ch.service}, "client_id": {"sealer"},
		}
		if scope != "" {
			form.Set("scope", scope)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return req, nil
	}
	if ch.service != "" {
		q.Set("service", ch.service)
	}
	for s := range strings.FieldsSeq(scope) {
		q.Add("scope", s)
	}
	if cred != nil {
		q.Set("account", cred.Username)
	}
	target := *u
	target.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	if cred != nil {
		req.SetBasicAuth(cred.Username, cred.Password)
	}
	return req, nil
}

func basic(c Credential) string {
	req := http.Request{Header: http.Header{}}
	req.SetBasicAuth(c.Username, c.Password)
	return req.Header.Get("Authorization")
}

// linkedHost returns the host for a URL in an answer of h: a token server, or the
// target of a redirect. Plain http is followed only to a host that the user
// called insecure, h itself included: a registry must not lead a credential or a
// transfer out of TLS.
func (c *Client) linkedHost(h *host, u *url.URL) (*host, error) {
	to, err := c.host(u.Host, h.insecure && u.Host == h.addr)
	if err != nil {
		return nil, err
	}
	if u.Host == h.addr {
		to = h
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && to.insecure:
	case u.Scheme == "http":
		return nil, fmt.Errorf("registry %s leads to %s over plain http, which is only used for a registry that is said to be insecure", h.name, u.Host)
	default:
		return nil, fmt.Errorf("registry %s leads to a URL of scheme %q", h.name, printable(u.Scheme, 20))
	}
	return to, nil
}
