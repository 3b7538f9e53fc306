package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// An Auth restricts the use of an upstream. The zero value lets everybody.
type Auth struct {
	Scheme Scheme
	// User and Password are required. With Bearer, an empty User gives tokens to
	// everybody, as Docker Hub does for public images.
	User, Password string
	// TokenUses is the number of requests that a token is good for; 0 is no
	// limit. It simulates expiry without a clock.
	TokenUses int
	// TokenServer is the URL of a token server elsewhere, such as another
	// Upstream's TokenURL; "" is the upstream's own.
	TokenServer string
}

// A Scheme is a way to authenticate.
type Scheme int

// The schemes. Bearer is the token protocol of the Docker registry
// (distribution's documentation, "Token Authentication Specification").
const (
	NoAuth Scheme = iota
	Basic
	Bearer
)

// A token of a Bearer upstream: the requests left and the repositories allowed.
type token struct {
	left   int // below 0: no limit
	scopes []string
}

// ExpireTokens makes every issued token invalid.
func (u *Upstream) ExpireTokens() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.tokens)
}

// TokenURL returns the URL of the upstream's token server.
func (u *Upstream) TokenURL() string { return u.URL() + tokenPath }

// authorised answers 401 with a challenge, or returns true.
func (u *Upstream) authorised(w http.ResponseWriter, r *http.Request, what Request) bool {
	a := u.options.Auth
	action := "pull"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		action = "push"
	}
	switch a.Scheme {
	case NoAuth:
		return true
	case Basic:
		if user, password, ok := r.BasicAuth(); ok && user == a.User && password == a.Password {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registrytest"`)
	case Bearer:
		value, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if ok && u.spend(value, what.Repository, action) {
			return true
		}
		realm := a.TokenServer
		if realm == "" {
			realm = u.TokenURL()
		}
		challenge := fmt.Sprintf(`Bearer realm=%q,service=%q`, realm, u.Host())
		if what.Repository != "" {
			scope := "pull"
			if action == "push" {
				scope = "pull,push"
			}
			challenge += fmt.Sprintf(`,scope="repository:%s:%s"`, what.Repository, scope)
		}
		if ok {
			challenge += `,error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	sendError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	return false
}

// spend takes one use of a token for action on repository; "" is the ping.
func (u *Upstream) spend(value, repository, action string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ok := u.tokens[value]
	if !ok || t.left == 0 {
		return false
	}
	allowed := repository == "" || slices.ContainsFunc(t.scopes, func(scope string) bool {
		parts := strings.Split(scope, ":")
		return len(parts) == 3 && parts[0] == "repository" && parts[1] == repository &&
			slices.Contains(strings.Split(parts[2], ","), action)
	})
	if allowed {
		t.left--
	}
	return allowed
}

// serveToken is the token server: GET with basic auth, or POST as OAuth2.
func (u *Upstream) serveToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		sendError(w, http.StatusBadRequest, "UNKNOWN", err.Error())
		return
	}
	user, password, _ := r.BasicAuth()
	if r.Method == http.MethodPost {
		user, password = r.PostForm.Get("username"), r.PostForm.Get("password")
	}
	a := u.options.Auth
	if a.User != "" && (user != a.User || password != a.Password) {
		sendError(w, http.StatusUnauthorized, "UNAUTHORIZED", "wrong user or password")
		return
	}
	left := -1
	if a.TokenUses > 0 {
		left = a.TokenUses
	}
	var scopes []string
	for _, s := range r.Form["scope"] {
		scopes = append(scopes, strings.Fields(s)...)
	}
	u.mu.Lock()
	u.issued++
	value := fmt.Sprintf("token-%d-of-%s", u.issued, u.Host())
	u.tokens[value] = &token{left: left, scopes: scopes}
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": value, "access_token": value, "expires_in": 300})
}
