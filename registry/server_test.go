package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/tree"
)

// serve runs h until the test ends and returns the server.
func serve(t testing.TB, h http.Handler, o registry.ServerOptions) *registry.Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s, err := registry.Listen(h, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSelfSigned(t *testing.T) {
	t.Parallel()
	h := newHandler(t, registry.Options{}, writeLayer(t, tree.NamingPath, few()))
	s := serve(t, h, registry.ServerOptions{SelfSigned: true, Hosts: []string{"sea.hub:5000"}})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.Certificate()) {
		t.Fatalf("no certificate: %s", s.Certificate())
	}
	for _, name := range []string{"", "sea.hub", "localhost"} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name}}}
		resp, err := client.Get(s.URL() + "/v2/")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("as %q: %v, %v", name, resp, err)
		}
		resp.Body.Close()
		client.CloseIdleConnections()
	}
}

func TestServeFinishesRequests(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s, err := registry.Listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	}), registry.ServerOptions{Addr: "127.0.0.1:0", Grace: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	body := make(chan string, 1)
	go func() {
		resp, err := http.Get(s.URL())
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		body <- string(b)
	}()
	<-arrived
	stop()
	close(release)
	if got := <-body; got != "done" {
		t.Errorf("the running request got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestListenRejects(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]registry.ServerOptions{
		"needs its key":        {CertFile: bad},
		"choose one":           {CertFile: bad, KeyFile: bad, SelfSigned: true},
		"load TLS certificate": {Addr: "127.0.0.1:0", CertFile: bad, KeyFile: bad},
		"listen: ":             {Addr: "127.0.0.1:99999"},
	} {
		if _, err := registry.Listen(http.NotFoundHandler(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen(%+v) = %v, want %q", o, err, want)
		}
	}
}
