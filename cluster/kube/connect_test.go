package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
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
)

// certify makes a certificate that signs itself, for a host or a client, as PEM.
func certify(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// connectHTTP is an HTTP proxy that wants a password, and counts the tunnels it made.
func connectHTTP(t *testing.T, tunnels *atomic.Int32) string {
	var all sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("u:SECRET")) {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n") // the client sees it
		tunnel(t, &all, client, r.Host)
		tunnels.Add(1)
	}))
	t.Cleanup(func() { s.Close(); all.Wait() })
	return s.Listener.Addr().String()
}

// connectSOCKS is a SOCKS5 proxy (RFC 1928) without a password.
func connectSOCKS(t *testing.T, tunnels *atomic.Int32) string {
	var all sync.WaitGroup
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 10) // greeting of 3 bytes; then VER CMD RSV ATYP, IPv4, port
			_, err = io.ReadFull(client, b[:3])
			if err == nil {
				_, err = client.Write([]byte{5, 0})
			}
			if err == nil {
				_, err = io.ReadFull(client, b)
			}
			if err == nil {
				_, err = client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
			}
			if err != nil {
				_ = client.Close()
				continue
			}
			tunnels.Add(1)
			tunnel(t, &all, client, fmt.Sprintf("%s:%d", net.IP(b[4:8]), int(b[8])<<8|int(b[9])))
		}
	})
	return l.Addr().String()
}

// tunnel copies both ways until one end closes.
func tunnel(t *testing.T, all *sync.WaitGroup, client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		_ = client.Close()
		return
	}
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		all.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // ends with either connection
			_, _ = way[0].Close(), way[1].Close()
		})
	}
}

// An API server that demands a client certificate is reached with each of the settings
// that a kubeconfig file has for it, and refuses a client without them.
func TestConnect(t *testing.T) {
	t.Parallel()
	serverCert, serverKey := certify(t, "api.internal")
	clientCert, clientKey := certify(t, "admin")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.TLS.PeerCertificates[0].Subject.CommonName + " " + r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "{}") // a client that is gone needs no answer
	}))
	s.Config.ErrorLog = nil
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	s.TLS.ClientCAs.AppendCertsFromPEM(clientCert)
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"ca.pem": serverCert, "admin.pem": clientCert, "admin.key": clientKey, "token": []byte("FILE\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := base64.StdEncoding.EncodeToString
	inline := fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", data(clientCert), data(clientKey))
	const files, trusted = "client-certificate: admin.pem, client-key: admin.key", "certificate-authority: ca.pem, tls-server-name: api.internal"
	var viaHTTP, viaSOCKS atomic.Int32
	httpProxy, socksProxy := connectHTTP(t, &viaHTTP), connectSOCKS(t, &viaSOCKS)
	for name, c := range map[string]struct{ cluster, user, asked, err string }{
		"data":                 {"tls-server-name: api.internal, certificate-authority-data: " + data(serverCert), inline, "admin ", ""},
		"files":                {trusted, files, "admin ", ""},
		"null":                 {trusted, files + ", exec: null, auth-provider: null", "admin ", ""},
		"token":                {trusted, files + ", token: INLINE", "admin Bearer INLINE", ""},
		"token file":           {trusted, files + ", token: INLINE, tokenFile: token", "admin Bearer FILE", ""},
		"insecure":             {"insecure-skip-tls-verify: true", files, "admin ", ""},
		"insecure and CA":      {trusted + ", insecure-skip-tls-verify: true", files, "", "take one of them out"},
		"HTTP proxy":           {trusted + ", proxy-url: 'http://u:SECRET@" + httpProxy + "'", files, "admin ", ""},
		"HTTP proxy, no login": {trusted + ", proxy-url: 'http://u:SECRET2@" + httpProxy + "'", files, "", "Proxy Authentication Required"},
		"SOCKS proxy":          {trusted + ", proxy-url: 'socks5://" + socksProxy + "'", files, "admin ", ""},
		"another name":         {"certificate-authority: ca.pem, tls-server-name: other.internal", files, "", "api.internal"},
		"no certificate":       {trusted, "token: SECRET", "", "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store("")
			file := filepath.Join(dir, "config")
			text := fmt.Sprintf("contexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, %s}}]\nusers: [{name: u, user: {%s}}]\n", s.URL, c.cluster, c.user)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			config, err := ReadConfig(file)
			var client *Client
			if err == nil {
				client, err = New(config)
			}
			if err == nil {
				err = client.Do(t.Context(), http.MethodGet, "/api", "", nil, nil)
				client.http.CloseIdleConnections()
			}
			if got := asked.Load(); got != c.asked {
				t.Errorf("the server saw %q, want %q", got, c.asked)
			}
			switch {
			case (err == nil) != (c.err == ""), err != nil && !strings.Contains(err.Error(), c.err):
				t.Errorf("error %v, want %q", err, c.err)
			case err != nil && strings.Contains(err.Error(), "SECRET"):
				t.Errorf("the error tells a credential: %v", err)
			}
		})
	}
	if viaHTTP.Load() != 1 || viaSOCKS.Load() != 1 {
		t.Errorf("%d and %d tunnels through the proxies, want 1 and 1", viaHTTP.Load(), viaSOCKS.Load())
	}
}
