package kube

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const valid = `current-context: b
contexts:
- {name: a, context: {cluster: other, user: nobody}}
- {name: b, context: {cluster: ours, user: admin}}
clusters:
- {name: other, cluster: {server: "https://other:6443"}}
- {name: ours, cluster: {server: "https://10.0.0.1:6443/", certificate-authority: ca.pem, tls-server-name: api}}
users:
- {name: admin, user: {token: SECRET}}
- {name: nobody, user: {}}
`

func TestReadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "config")
	for file, text := range map[string]string{name: valid, filepath.Join(dir, "ca.pem"): "CA"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Server: "https://10.0.0.1:6443", ServerName: "api", CA: []byte("CA"), Token: "SECRET"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A setting is that of the first file that has it, and a relative path begins at
// the directory of its file.
func TestReadConfigs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"first/config": "current-context: mine\nusers: [{name: admin, user: {tokenFile: token}}]\n" +
			"contexts: [{name: mine, context: {cluster: ours, user: admin}}]\n",
		"first/token": "FIRST\n", "second/config": valid, "second/ca.pem": "CA",
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{filepath.Join(dir, "none"), filepath.Join(dir, "first/config"), filepath.Join(dir, "second/config")}
	for context, want := range map[string]Config{
		"":  {Server: "https://10.0.0.1:6443", ServerName: "api", CA: []byte("CA"), Token: "FIRST"},
		"a": {Server: "https://other:6443"},
	} {
		got, err := ReadConfigs(names, context)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("context %q: %v\n%s", context, err, d)
		}
	}
	if _, err := ReadConfigs(names[:1], ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one file that is not there: %v", err)
	}
}

func TestReadConfigFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"current-context: b", "current-context: c", `the context "c" is not in it; there are: a, b`},
		{"current-context: b", "", "no current-context"},
		{"cluster: ours,", "cluster: none,", `cluster "none" has no server`},
		{"https://10.0.0.1:6443/", "ftp://10.0.0.1", `scheme "ftp"`},
		{"https://10.0.0.1:6443/", "10.0.0.1", "want https://HOST"},
		{"https://10.0.0.1:6443/", "https://SECRET:SECRET@10.0.0.1", "want https://HOST"},
		{"ca.pem", "absent.pem", "absent.pem"},
		{"tls-server-name: api", "proxy-url: ftp://SECRET@p", "want http://"},
		{"token: SECRET", "exec: {command: SECRET}", "exec is not supported"},
		{"token: SECRET", "username: u, password: SECRET", "username is not supported"},
		{"token: SECRET", "auth-provider: {name: x}", "auth-provider is not supported"},
		{"token: SECRET", "as: root", "as is not supported"},
		{"token: SECRET", "client-key-data: U0VDUkVU", "certificate and its key"},
		{"token: SECRET", "tokenFile: none", "none"},
		{"contexts:", "contexts: SECRET\nx:", "not the YAML"},
		{"token: SECRET", "token: [SECRET]", "not the YAML"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "config")
		if err := os.WriteFile(name, []byte(strings.Replace(valid, c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadConfig(name)
		switch {
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: error %v: want %q", c.new, err, c.want)
		case strings.Contains(err.Error(), "SECRET"):
			t.Errorf("%s: the error tells a credential: %v", c.new, err)
		}
	}
}

// serve starts an API server and returns a client that trusts it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := New(Config{Server: s.URL, CA: ca, Token: "SECRET"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestListPages(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer SECRET" || r.URL.Path != "/api/v1/pods" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		switch r.URL.Query().Get("continue") {
		case "":
			fmt.Fprint(w, `{"metadata":{"continue":"n e&xt"},"items":[1,2]}`)
		case "n e&xt":
			fmt.Fprint(w, `{"items":[3]}`)
		}
	})
	var got []string
	err := c.List(t.Context(), "/api/v1/pods", func(o json.RawMessage) error {
		got = append(got, string(o))
		return nil
	})
	if d := cmp.Diff([]string{"1", "2", "3"}, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request went to another host, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"the same page for ever": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"metadata":{"continue":"x"},"items":[]}`)
		}, "same page"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "307"},
		"no JSON":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "invalid character"},
		"another kind": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":"x"}`) }, "items"},
		"a long answer": {func(w http.ResponseWriter, _ *http.Request) {
			b := []byte(strings.Repeat(" ", 1<<20))
			for range maxAnswer>>20 + 1 {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, "more than"},
		"a status with escapes": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"no \u001b[31mred"}`)
		}, `403 Forbidden: "no \x1b[31mred"`},
	} {
		client := serve(t, c.answer)
		err := client.List(t.Context(), "/x", func(json.RawMessage) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %q", name, err, c.want)
		}
	}
}

func TestStatusError(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	var s *StatusError
	if err := c.Do(t.Context(), http.MethodGet, "/x", "", nil, nil); !errors.As(err, &s) || s.Code != http.StatusNotFound {
		t.Errorf("error %v", err)
	}
}

// A server with another certificate is no API server of ours.
func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	c, err := New(Config{Server: s.URL, Token: "SECRET"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/x", "", nil, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v", err)
	}
}
