package registry_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/clusterimage/sealer/registry"
)

// leaf returns the certificate that s shows, which must be signed by its CA.
func leaf(t *testing.T, s *registry.Server, addr string) *x509.Certificate {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.Certificate()) {
		t.Fatalf("no certificate: %s", s.Certificate())
	}
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// TestSelfSignedAddresses: a server on all addresses is trusted at each of them.
func TestSelfSignedAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, http.NotFoundHandler(), registry.ServerOptions{
		Addr: "0.0.0.0:0", SelfSigned: true, Hosts: []string{"sea.hub:5000", "vip.corp", "192.0.2.7"},
	})
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := leaf(t, s, "127.0.0.1:"+port)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "sea.hub", "vip.corp", "192.0.2.7", "127.0.0.1", host} {
		if err := c.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			if err := c.VerifyHostname(n.IP.String()); err != nil {
				t.Error(err)
			}
		}
	}
	if c.IsCA {
		t.Error("the server's certificate may sign others")
	}
	if err := c.VerifyHostname("other.corp"); err == nil {
		t.Error("good for any name")
	}
}

func TestCAStays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	o := registry.ServerOptions{SelfSigned: true, CAFile: file}
	var all [4][]byte // several processes begin at once
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			o := o
			o.Addr = "127.0.0.1:0"
			s, err := registry.Listen(http.NotFoundHandler(), o)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			all[i] = s.Certificate()
		})
	}
	wg.Wait()
	for _, c := range all[1:] {
		if !bytes.Equal(c, all[0]) {
			t.Errorf("another CA:\n%s%s", c, all[0])
		}
	}
	s := serve(t, http.NotFoundHandler(), o)
	if !bytes.Equal(s.Certificate(), all[0]) {
		t.Error("a restart made another CA")
	}
	leaf(t, s, s.Addr())
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the key has mode %o", fi.Mode().Perm())
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".ca-*")); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestCARejects(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "ca.pem")
	other := filepath.Join(t.TempDir(), "ca.pem")
	for _, file := range []string{good, other} {
		s, err := registry.Listen(http.NotFoundHandler(), registry.ServerOptions{Addr: "127.0.0.1:0", SelfSigned: true, CAFile: file})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	read := func(file string) (cert, key string) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cert, key, _ = strings.Cut(string(b), "-----BEGIN PRIVATE")
		return cert, "-----BEGIN PRIVATE" + key
	}
	cert, key := read(good)
	_, wrong := read(other)
	for _, c := range []struct {
		content string
		mode    os.FileMode
		want    string
	}{
		{cert + key, 0o644, "chmod 600"},
		{cert, 0o600, "want the certificate of a CA and its key"},
		{cert + wrong, 0o600, "not that of the certificate"},
		{"", 0o600, "remove the file"},
		{strings.Replace(cert, "MII", "MIA", 1) + key, 0o600, "x509"},
	} {
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := registry.Listen(http.NotFoundHandler(), registry.ServerOptions{Addr: "127.0.0.1:0", SelfSigned: true, CAFile: file})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestCheckCertHost(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "A.b-c.example", "*.corp", "10.0.0.1", "fe80::1", "k8s_node"} {
		if err := registry.CheckCertHost(s); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []string{"", "a b", "a.", "*", "a.*.b", "ä.de", "a:5000", strings.Repeat("a", 300)} {
		if registry.CheckCertHost(s) == nil {
			t.Errorf("%q passed", s)
		}
	}
}
