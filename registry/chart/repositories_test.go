package chart

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/clusterimage/sealer/registry/remote"
)

// A repo is a chart repository over TLS that notes who asks for what.
type repo struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func (r *repo) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// newRepo starts a repository whose index names archive. It refuses all without its password,
// with 404 and no challenge, as some do.
func newRepo(t *testing.T, clientCert bool, archive *string) *repo {
	r := &repo{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		user, password, _ := q.BasicAuth()
		r.mu.Lock()
		r.asked = append(r.asked, strings.TrimSpace(q.URL.Path+" "+user))
		r.mu.Unlock()
		switch {
		case archive == nil:
			_, _ = w.Write([]byte{0x1f, 0x8b}) // a client that is gone needs no answer
		case user != "u" || password != "SECRET":
			http.NotFound(w, q)
		case q.URL.Path == "/charts/index.yaml":
			_, _ = fmt.Fprintf(w, "entries:\n  shop:\n  - version: 1.0.0\n    urls: [%q]\n", *archive)
		default:
			_, _ = w.Write([]byte{0x1f, 0x8b})
		}
	}))
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if clientCert {
		r.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// The credentials of helm's file go to the repository that they are for, and to no other
// host unless the file says so; no error and no log tells them.
func TestRepositories(t *testing.T) {
	var archive string
	plain, strict, other := newRepo(t, false, &archive), newRepo(t, true, &archive), newRepo(t, false, nil)
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(strict.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: plain.Certificate().Raw})
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, data := range map[string][]byte{"ca.pem": ca, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), "none.pem": nil} {
		if err := os.WriteFile(file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The other host is trusted by certs.d: nothing of the repository's entry is for it.
	certs := file(filepath.Join("certs.d", other.Listener.Addr().String()))
	if err := os.MkdirAll(certs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certs, "ca.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	const login = "username: u, password: SECRET, "
	trust := fmt.Sprintf("caFile: %q, ", file("ca.pem"))
	pair := fmt.Sprintf("certFile: %q, keyFile: %q, ", file("ca.pem"), file("key.pem"))
	elsewhere := other.URL + "/shop.tgz"
	for name, c := range map[string]struct {
		at             *repo
		entry, archive string
		own, others    []string
		err            string
	}{
		"caFile":               {plain, login + trust, "shop.tgz", []string{"/charts/index.yaml u", "/charts/shop.tgz u"}, nil, ""},
		"not verified":         {plain, login + "insecure_skip_tls_verify: true", "shop.tgz", []string{"/charts/index.yaml u", "/charts/shop.tgz u"}, nil, ""},
		"client certificate":   {strict, login + trust + pair, "shop.tgz", []string{"/charts/index.yaml u", "/charts/shop.tgz u"}, nil, ""},
		"without certificate":  {strict, login + trust, "shop.tgz", nil, nil, "certificate required"},
		"unknown authority":    {plain, login, "shop.tgz", nil, nil, "certificate"},
		"an empty caFile":      {plain, login + fmt.Sprintf("caFile: %q", file("none.pem")), "shop.tgz", nil, nil, "no certificate in it"},
		"a wrong password":     {plain, "username: u, password: SECRET2, " + trust, "shop.tgz", []string{"/charts/index.yaml u"}, nil, "404"},
		"another host":         {plain, login + trust, elsewhere, []string{"/charts/index.yaml u"}, []string{"/shop.tgz"}, ""},
		"all hosts":            {plain, login + trust + "pass_credentials_all: true", elsewhere, []string{"/charts/index.yaml u"}, []string{"/shop.tgz u"}, ""},
		"two slashes":          {plain, login + trust, plain.URL + "//" + other.Listener.Addr().String() + "/shop.tgz", []string{"/charts/index.yaml u", "//" + other.Listener.Addr().String() + "/shop.tgz u"}, nil, ""},
		"of another directory": {plain, login + trust + "url: " + plain.URL + "/private", "shop.tgz", nil, nil, "certificate"},
		"not YAML":             {plain, login + "[SECRET", "shop.tgz", nil, nil, "HELM_REPOSITORY_CONFIG"},
	} {
		t.Run(name, func(t *testing.T) {
			archive, plain.asked, strict.asked, other.asked = c.archive, nil, nil, nil
			entry := "name: x, " + c.entry
			if !strings.Contains(entry, "url: ") {
				entry = fmt.Sprintf("url: %q, ", c.at.URL+"/charts/") + entry
			}
			t.Setenv("HELM_REPOSITORY_CONFIG", file("repositories.yaml"))
			if err := os.WriteFile(file("repositories.yaml"), []byte("repositories:\n- {"+entry+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			client, err := remote.New(remote.Options{RegistriesConf: os.DevNull, CertsDir: file("certs.d"), AuthFile: emptyAuth(t), Retries: -1,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if err != nil {
				t.Fatal(err)
			}
			f := NewFetcher(client)
			s := Source{Repository: c.at.URL + "/charts", Name: "shop", Version: "1.0.0"}
			pin, err := f.Resolve(t.Context(), s)
			if err == nil {
				_, err = f.Fetch(t.Context(), s, pin)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if told := fmt.Sprint(err, log.String()); strings.Contains(told, "SECRET") || strings.Contains(told, "dTpTRUNSRVQ") {
				t.Errorf("a credential is told: %s", told)
			}
			if got := c.at.log(); !slices.Equal(got, c.own) {
				t.Errorf("the repository was asked for %q, want %q", got, c.own)
			}
			if got := other.log(); !slices.Equal(got, c.others) {
				t.Errorf("the other host was asked for %q, want %q", got, c.others)
			}
		})
	}
}

// emptyAuth is an auth file without credentials.
func emptyAuth(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Helm's file is where helm looks for it.
func TestRepositoriesFile(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME", "HELM_CONFIG_HOME", "HELM_REPOSITORY_CONFIG"} {
		t.Setenv(name, "")
	}
	if got := RepositoriesFile(); got != "" {
		t.Errorf("without a home: %q", got)
	}
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	places := map[string]string{"darwin": "Library/Preferences/helm", "windows": "helm"}
	want := filepath.Join(home, cmp.Or(places[runtime.GOOS], ".config/helm"), "repositories.yaml")
	if got := RepositoriesFile(); got != want {
		t.Errorf("in the home: %q, want %q", got, want)
	}
	for _, c := range [][3]string{
		{"XDG_CONFIG_HOME", filepath.Join(home, "xdg"), filepath.Join(home, "xdg", "helm", "repositories.yaml")},
		{"HELM_CONFIG_HOME", filepath.Join(home, "own"), filepath.Join(home, "own", "repositories.yaml")},
		{"HELM_REPOSITORY_CONFIG", filepath.Join(home, "r.yaml"), filepath.Join(home, "r.yaml")},
	} {
		t.Setenv(c[0], c[1])
		if got := RepositoriesFile(); got != c[2] {
			t.Errorf("%s: %q, want %q", c[0], got, c[2])
		}
	}
}

// A file of the size limit is read, and a larger one refused.
func TestRepositoriesLimit(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "repositories.yaml")
	for size, fine := range map[int]bool{maxRepositories: true, maxRepositories + 1: false} {
		text := "repositories: [{url: x}]\n#"
		if err := os.WriteFile(name, []byte(text+strings.Repeat(" ", size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readRepositories(name); (err == nil) != fine || fine && len(got) != 1 {
			t.Errorf("%d bytes: %v, %v", size, got, err)
		}
	}
}
