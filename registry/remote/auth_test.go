package remote_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

func authFile(t *testing.T, key, user, password string) string {
	return write(t, "auth.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, key, base64.StdEncoding.EncodeToString([]byte(user+":"+password))))
}

func TestAuth(t *testing.T) {
	t.Parallel()
	basic := registrytest.Auth{Scheme: registrytest.Basic, User: "u", Password: "secret"}
	bearer := registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "secret"}
	for _, tc := range []struct {
		name string
		auth registrytest.Auth
		set  func(t *testing.T, host string, o *remote.Options)
		as   func(host string) *remote.Credential
		want error
	}{
		{name: "anonymous token", auth: registrytest.Auth{Scheme: registrytest.Bearer}},
		{name: "basic, none", auth: basic, want: remote.ErrUnauthorized},
		{name: "bearer, none", auth: bearer, want: remote.ErrUnauthorized},
		{name: "basic, options", auth: basic, set: func(_ *testing.T, host string, o *remote.Options) {
			o.Credentials = []remote.Credential{{Registry: "other.example", Username: "x"}, {Registry: host, Username: "u", Password: "secret"}}
		}},
		{name: "bearer, wrong", auth: bearer, want: remote.ErrUnauthorized, set: func(_ *testing.T, host string, o *remote.Options) {
			o.Credentials = []remote.Credential{{Registry: host, Username: "u", Password: "secret2"}}
		}},
		{name: "basic, auth file", auth: basic, set: func(t *testing.T, host string, o *remote.Options) { o.AuthFile = authFile(t, host, "u", "secret") }},
		{name: "bearer, auth file, repository", auth: bearer, set: func(t *testing.T, host string, o *remote.Options) {
			o.AuthFile = authFile(t, host+"/library/one", "u", "secret")
		}},
		{name: "auth file, other repository", auth: bearer, want: remote.ErrUnauthorized, set: func(t *testing.T, host string, o *remote.Options) {
			o.AuthFile = authFile(t, host+"/library/two", "u", "secret")
		}},
		{name: "as", auth: bearer, as: func(host string) *remote.Credential {
			return &remote.Credential{Registry: host, Username: "u", Password: "secret"}
		}, set: func(t *testing.T, host string, o *remote.Options) { o.AuthFile = authFile(t, host, "u", "wrong") }},
		{name: "as, for another registry", auth: basic, want: remote.ErrUnauthorized, as: func(string) *remote.Credential {
			return &remote.Credential{Registry: "other.example", Username: "u", Password: "secret"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, registrytest.Options{Auth: tc.auth})
			o := options(t, up)
			var log bytes.Buffer
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if tc.set != nil {
				tc.set(t, up.Host(), &o)
			}
			c := newClient(t, o)
			if tc.as != nil {
				c = c.As(tc.as(up.Host()))
			}
			_, err := c.Pull(t.Context(), storetest.New(t), up.Ref("one:1"), remote.PullOptions{})
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if strings.Contains(fmt.Sprint(err, log.String()), "secret") {
				t.Errorf("the password is in the error %v or in the log:\n%s", err, log.String())
			}
		})
	}
}

// Two users of one registry, at the same time: each gets what is his.
func TestTwoCredentialsForOneRegistry(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "right"}})
	c := newClient(t, options(t, up))
	right := c.As(&remote.Credential{Registry: up.Host(), Username: "u", Password: "right"})
	wrong := c.As(&remote.Credential{Registry: up.Host(), Username: "u", Password: "wrong"})
	if _, _, err := right.Manifest(t.Context(), up.Ref("one:1")); err != nil {
		t.Error(err)
	}
	if _, _, err := wrong.Manifest(t.Context(), up.Ref("one:1")); !errors.Is(err, remote.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
	if _, _, err := c.Manifest(t.Context(), up.Ref("one:1")); !errors.Is(err, remote.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
}

func TestOneTokenForAScope(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer}})
	c := newClient(t, options(t, up))
	for range 3 {
		if _, err := c.Pull(t.Context(), storetest.New(t), up.Ref("many:1"), remote.PullOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := up.Count(registrytest.Token); n != 1 {
		t.Errorf("%d tokens were asked for, want 1", n)
	}
}

// A token that runs out in a long copy is replaced, in the middle of pulls and
// of pushes.
func TestTokenRefresh(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "secret", TokenUses: 3}})
	o := options(t, up)
	o.Credentials = []remote.Credential{{Registry: up.Host(), Username: "u", Password: "secret"}}
	o.Jobs = 1     // so that no other request uses a new token up
	o.Retries = 20 // an upload begins again when its token runs out
	s, c := storetest.New(t), newClient(t, o)
	d, err := c.Pull(t.Context(), s, up.Ref("many:1"), remote.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := up.Count(registrytest.Token); n < 2 {
		t.Errorf("%d tokens for a pull of 9 requests, 3 each", n)
	}
	if err := c.Push(t.Context(), s, d, up.Ref("copy:1"), remote.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	up.ExpireTokens()
	if got, _, err := c.Manifest(t.Context(), up.Ref("copy:1")); err != nil || got.Digest != d.Digest {
		t.Errorf("%v, %v", got, err)
	}
}

// An identity token is exchanged by OAuth 2, not sent to the registry.
func TestIdentityToken(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer}})
	var form string
	up.Inject(registrytest.Fault{On: registrytest.Token, Do: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			form = r.Method + " " + r.PostForm.Encode()
			next.ServeHTTP(w, r)
		})
	}})
	o := options(t, up)
	o.AuthFile = write(t, "auth.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q,"identitytoken":"idtoken"}}}`, up.Host(), base64.StdEncoding.EncodeToString([]byte("u:"))))
	if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"POST ", "grant_type=refresh_token", "refresh_token=idtoken", "scope=repository%3Alibrary%2Fone%3Apull"} {
		if !strings.Contains(form, want) {
			t.Errorf("the token server was asked %q, want %q in it", form, want)
		}
	}
}

func TestCredentialHelper(t *testing.T) {
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Basic, User: "u", Password: "from-helper"}})
	bin := t.TempDir()
	helper := "#!/bin/sh\nread host\nprintf '{\"ServerURL\":\"%s\",\"Username\":\"u\",\"Secret\":\"from-helper\"}' \"$host\"\n"
	if err := os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	o := options(t, up)
	o.AuthFile = write(t, "auth.json", fmt.Sprintf(`{"credHelpers":{%q:"test"}}`, up.Host()))
	if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); err != nil {
		t.Fatal(err)
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	for _, scheme := range []registrytest.Scheme{registrytest.Basic, registrytest.Bearer} {
		up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: scheme, User: "u", Password: "secret"}})
		o := options(t, up)
		c := newClient(t, o)
		if _, err := c.Login(t.Context(), up.Host(), "u", "wrong"); !errors.Is(err, remote.ErrUnauthorized) {
			t.Errorf("a wrong password: %v", err)
		}
		if b, err := os.ReadFile(o.AuthFile); err != nil || string(b) != "{}" {
			t.Errorf("a refused login left %q, %v", b, err)
		}
		where, err := c.Login(t.Context(), up.Host(), "u", "secret")
		if err != nil || !strings.Contains(where, o.AuthFile) {
			t.Fatalf("%q, %v", where, err)
		}
		if info, err := os.Stat(o.AuthFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the auth file has mode %v, %v", info.Mode(), err)
		}
		if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); err != nil {
			t.Errorf("after login: %v", err)
		}
		if err := c.Logout(up.Host()); err != nil {
			t.Error(err)
		}
		if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); !errors.Is(err, remote.ErrUnauthorized) {
			t.Errorf("after logout: %v", err)
		}
		if err := c.Logout(up.Host()); !errors.Is(err, remote.ErrNotLoggedIn) {
			t.Errorf("logging out twice: %v", err)
		}
	}
}

// A registry on loopback tells where to get tokens; the credential goes to a
// token server elsewhere only over TLS, or to one that is said to be insecure.
func TestTokenServerElsewhere(t *testing.T) {
	t.Parallel()
	tokens := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "secret"}})
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer, TokenServer: tokens.TokenURL()}})
	o := options(t, up)
	o.Credentials = []remote.Credential{{Registry: up.Host(), Username: "u", Password: "secret"}}
	_, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1"))
	if err == nil || !strings.Contains(err.Error(), "over plain http") {
		t.Errorf("error %v", err)
	}
	if n := len(tokens.Requests()); n != 0 {
		t.Errorf("the token server was asked %d times over plain http", n)
	}
}
