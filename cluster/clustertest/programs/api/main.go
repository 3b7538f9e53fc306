// Command api stands for the API server of a cluster that is none:
//
//	api ADDRESS DIR NODE...
//
// It knows the nodes, which are ready, and one pod in kube-system, and takes all
// that is written to it. DIR gets ca.crt and admin.conf, once it answers.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: api ADDRESS DIR NODE...")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func serve(address, dir string, nodes []string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	cert, ca, err := serving(host)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: admin
contexts:
- name: admin
  context: {cluster: c, user: admin}
clusters:
- name: c
  cluster:
    server: https://%s
    certificate-authority-data: %s
users:
- name: admin
  user: {token: none}
`, address, base64.StdEncoding.EncodeToString(ca))
	err = errors.Join(os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644), os.WriteFile(filepath.Join(dir, "admin.conf"), []byte(config), 0o644))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(nodes), ReadHeaderTimeout: time.Minute}
	return server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}}))
}

// serving makes an authority and a certificate of it; the authority is PEM.
func serving(host string) (*tls.Certificate, []byte, error) {
	ca, err := certificate.NewAuthority("stand-in")
	if err != nil {
		return nil, nil, err
	}
	p, err := ca.Issue(&x509.Certificate{IPAddresses: []net.IP{net.ParseIP(host)}}, certificate.Life)
	if err != nil {
		return nil, nil, err
	}
	text, _, err := ca.PEM()
	return p.TLS(), text, err
}

func handler(names []string) http.Handler {
	item := func(name string) any {
		return map[string]any{
			"metadata": map[string]any{"name": name, "namespace": "kube-system"},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "phase": "Running"},
		}
	}
	var nodes []any
	for _, n := range names {
		nodes = append(nodes, item(n))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{}
		switch {
		case r.URL.Path == "/api/v1/pods":
			answer = map[string]any{"items": []any{}}
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			answer = map[string]any{"items": nodes}
		case strings.HasSuffix(r.URL.Path, "/pods"):
			answer = map[string]any{"items": []any{item("coredns")}}
		case strings.Contains(r.URL.Path, "/nodes/") && r.Method == http.MethodGet:
			answer = item(path.Base(r.URL.Path))
		}
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	})
}
