package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/containers/image/v5/pkg/docker/config"
)

// credentials returns the credentials for t's registry, or nil for none. The
// credential of As comes first, then those of Options, then the auth files and
// credential helpers, where an entry for the repository wins over one for the
// registry.
func (c *Client) credentials(t target) (*Credential, error) {
	if c.cred != nil && sameRegistry(c.cred.Registry, t.host) {
		return c.cred, nil
	}
	for i := range c.o.Credentials {
		if sameRegistry(c.o.Credentials[i].Registry, t.host) {
			return &c.o.Credentials[i], nil
		}
	}
	key := t.host.name
	if t.repository != "" {
		key += "/" + t.repository
	}
	found, err := config.GetCredentials(c.sys, key)
	if err != nil {
		return nil, fmt.Errorf("read credentials for %s: %w", t.host.name, err)
	}
	switch {
	case found.IdentityToken != "":
		return &Credential{Registry: t.host.name, Password: found.IdentityToken}, nil
	case found.Username != "" || found.Password != "":
		return &Credential{Registry: t.host.name, Username: found.Username, Password: found.Password}, nil
	}
	return nil, nil
}

func sameRegistry(name string, h *host) bool {
	switch name {
	case h.name, h.addr:
		return true
	case "index.docker.io", "https://index.docker.io/v1/":
		return h.name == "docker.io"
	}
	return false
}

// Login checks user and password at registry, a host[:port] as references name
// it, and saves them only if the registry accepts them: in the credential helper
// that is configured for the registry, else in the auth file. It returns the
// place in words for people. The error wraps ErrUnauthorized when the registry
// refuses.
func (c *Client) Login(ctx context.Context, registry, user, password string) (string, error) {
	h, err := c.host(registry, c.insecureByConf(registry))
	if err != nil {
		return "", fmt.Errorf("log in to %s: %w", registry, err)
	}
	as := c.As(&Credential{Registry: registry, Username: user, Password: password})
	resp, err := as.do(ctx, target{host: h}, request{method: http.MethodGet, path: "/v2/"})
	if err != nil {
		return "", fmt.Errorf("log in to %s: %w", registry, err)
	}
	resp.Body.Close()
	where, err := config.SetCredentials(c.sys, registry, user, password)
	if err != nil {
		return "", fmt.Errorf("save credentials for %s: %w", registry, err)
	}
	return where, nil
}

// ErrNotLoggedIn is returned by Logout when no credentials are saved.
var ErrNotLoggedIn = errors.New("not logged in")

// Logout removes the credentials for registry from the auth file and the
// credential helpers. The error is ErrNotLoggedIn when there are none.
func (c *Client) Logout(registry string) error {
	err := config.RemoveAuthentication(c.sys, registry)
	if errors.Is(err, config.ErrNotLoggedIn) {
		err = ErrNotLoggedIn
	}
	if err != nil {
		return fmt.Errorf("log out of %s: %w", registry, err)
	}
	return nil
}
