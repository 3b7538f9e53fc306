package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

// Plain http is never tried for a registry that is not said to be insecure.
func TestNoFallbackToHTTP(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{})
	o := options(t)
	o.Credentials = []remote.Credential{{Registry: up.Host(), Username: "u", Password: "secret"}}
	_, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1"))
	if !errors.Is(err, remote.ErrPlainHTTP) {
		t.Errorf("error %v", err)
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("%d requests over http", n)
	}
}

func TestInsecure(t *testing.T) {
	t.Parallel()
	plain := newUpstream(t, registrytest.Options{})
	secure := newUpstream(t, registrytest.Options{TLS: true})
	conf := func(up *registrytest.Upstream) string {
		return write(t, "registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", up.Host()))
	}
	for name, tc := range map[string]struct {
		up  *registrytest.Upstream
		set func(o *remote.Options)
		ok  bool
	}{
		"http, by option":           {plain, func(o *remote.Options) { o.Insecure = []string{plain.Host()} }, true},
		"http, said to be http":     {plain, func(o *remote.Options) { o.Insecure = []string{"http://" + plain.Host()} }, true},
		"http, by registries.conf":  {plain, func(o *remote.Options) { o.RegistriesConf = conf(plain) }, true},
		"https, by option":          {secure, func(o *remote.Options) { o.Insecure = []string{secure.Host()} }, true},
		"https, by registries.conf": {secure, func(o *remote.Options) { o.RegistriesConf = conf(secure) }, true},
		"https, another insecure":   {secure, func(o *remote.Options) { o.Insecure = []string{plain.Host()} }, false},
		"https, unknown authority":  {secure, func(*remote.Options) {}, false},
	} {
		o := options(t)
		tc.set(&o)
		_, _, err := newClient(t, o).Manifest(t.Context(), tc.up.Ref("one:1"))
		if tc.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if !tc.ok && !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertsDir(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, registrytest.Options{TLS: true})
	o := options(t)
	dir := filepath.Join(o.CertsDir, up.Host())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, up.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); err != nil {
		t.Error(err)
	}
	// A bad file is an error; verification is not switched off for it.
	if err := os.WriteFile(ca, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newClient(t, o).Manifest(t.Context(), up.Ref("one:1")); err == nil || !strings.Contains(err.Error(), ca) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "old"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	o := options(t)
	r := ref.Reference{Registry: strings.TrimPrefix(srv.URL, "https://"), Repository: "a", Tag: "1"}
	_, err = newClient(t, o).Pull(t.Context(), storetest.New(t), r, remote.PullOptions{})
	var cert *tls.CertificateVerificationError
	if !errors.As(err, &cert) || !strings.Contains(err.Error(), r.String()) || asked.Load() != 0 {
		t.Errorf("error %v after %d requests", err, asked.Load())
	}
}

// A redirect is followed without credentials; from https to plain http it is
// not followed at all.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var headers []http.Header
	images := newUpstream(t, registrytest.Options{})
	elsewhere := newUpstream(t, registrytest.Options{})
	elsewhere.Inject(registrytest.Fault{On: registrytest.Blob, Do: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			headers = append(headers, r.Header)
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}})
	up := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Basic, User: "u", Password: "secret"}})
	up.Inject(registrytest.Fault{On: registrytest.Blob, Do: registrytest.Redirect(elsewhere.URL())})
	o := options(t, up, elsewhere, images)
	o.Credentials = []remote.Credential{{Registry: up.Host(), Username: "u", Password: "secret"}}
	s := storetest.New(t)
	if _, err := newClient(t, o).Pull(t.Context(), s, up.Ref("one:1"), remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	pulled(t, s, up.Content("one:1"))
	if len(headers) == 0 {
		t.Fatal("nobody was redirected")
	}
	for _, h := range headers {
		if h.Get("Authorization") != "" {
			t.Errorf("the target of a redirect was given %q", h.Get("Authorization"))
		}
	}
	// Not to a host over plain http that nobody called insecure.
	o.Insecure = []string{up.Host()}
	asked := len(elsewhere.Requests())
	_, err := newClient(t, o).Pull(t.Context(), storetest.New(t), up.Ref("one:1"), remote.PullOptions{})
	if err == nil || !strings.Contains(err.Error(), "over plain http") || len(elsewhere.Requests()) != asked {
		t.Errorf("error %v, %d requests more", err, len(elsewhere.Requests())-asked)
	}
	// Not for ever.
	up.ClearFaults()
	up.Inject(registrytest.Fault{On: registrytest.Blob, Do: registrytest.Redirect(up.URL())})
	if _, err := newClient(t, o).Pull(t.Context(), storetest.New(t), up.Ref("one:1"), remote.PullOptions{}); err == nil || !strings.Contains(err.Error(), "too many redirects") {
		t.Errorf("error %v", err)
	}
}

func TestMirrorsOfRegistriesConf(t *testing.T) {
	t.Parallel()
	mirror := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "many:1", Platforms: []string{"linux/amd64", "linux/arm64"}, Layers: registrytest.Layers("base", "top")}}})
	primary := newUpstream(t, registrytest.Options{})
	o := options(t)
	o.RegistriesConf = write(t, "registries.conf", fmt.Sprintf(`
[[registry]]
prefix = "reg.example/team"
location = %q
insecure = true
[[registry.mirror]]
location = "127.0.0.1:1/dead"
insecure = true
[[registry.mirror]]
location = %q
insecure = true
`, primary.Host()+"/library", mirror.Host()+"/library"))
	c := newClient(t, o)
	team := func(name string) ref.Reference {
		return ref.Reference{Registry: "reg.example", Repository: "team/" + name, Tag: "1"}
	}
	s := storetest.New(t)
	if _, err := c.Pull(t.Context(), s, team("many"), remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	pulled(t, s, mirror.Content("many:1"))
	if n := len(primary.Requests()); n != 0 {
		t.Errorf("the primary was asked %d times for what a mirror has", n)
	}
	if _, err := c.Pull(t.Context(), s, team("one"), remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Pull(t.Context(), s, team("none"), remote.PullOptions{})
	if !errors.Is(err, remote.ErrNotFound) || strings.Count(err.Error(), "; then ") != 3 || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want what all three said, on one line", err)
	}
	// A push goes to the registry, not to its mirrors.
	asked := len(mirror.Requests())
	desc := mirror.Content("many:1").Root
	if err := c.Push(t.Context(), s, desc, team("new"), remote.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := len(mirror.Requests()) - asked; n != 0 {
		t.Errorf("a push asked a mirror %d times", n)
	}
}

// tunnel makes a proxy for this test's process that connects host to up, and
// counts how often.
func tunnel(t *testing.T, up *registrytest.Upstream, host string) *atomic.Int32 {
	t.Helper()
	var tunnels atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != host {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		tunnels.Add(1)
		out, err := net.Dial("tcp", up.Host())
		if err != nil {
			return
		}
		w.WriteHeader(http.StatusOK)
		in, early, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(out, early); out.Close() }() // the client's first bytes may have been read
		go func() { _, _ = io.Copy(in, out); in.Close() }()
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	return &tunnels
}

// HTTPS_PROXY is honoured: a tunnel is asked for, and TLS goes end to end.
func TestProxy(t *testing.T) {
	up := newUpstream(t, registrytest.Options{TLS: true})
	tunnels := tunnel(t, up, "reg.example:443")
	o := options(t)
	o.Insecure = []string{"reg.example"} // the certificate is for 127.0.0.1
	d, _, err := newClient(t, o).Manifest(t.Context(), ref.Reference{Registry: "reg.example", Repository: "library/one", Tag: "1"})
	if err != nil || d.Digest != up.Content("one:1").Root.Digest || tunnels.Load() == 0 {
		t.Errorf("%v, %v, %d tunnels", d, err, tunnels.Load())
	}
}

// Over TLS the client keeps to HTTP/1.1, whatever the server offers, so that
// blobs have connections of their own.
func TestHTTP1OverTLS(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var protocols []string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		protocols = append(protocols, r.Proto)
		http.NotFound(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	o := options(t)
	host := strings.TrimPrefix(srv.URL, "https://")
	o.Insecure = []string{host}
	_, _, err := newClient(t, o).Manifest(t.Context(), ref.Reference{Registry: host, Repository: "a", Tag: "1"})
	if !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	for _, p := range protocols {
		if p != "HTTP/1.1" {
			t.Errorf("a request came by %s", p)
		}
	}
}
