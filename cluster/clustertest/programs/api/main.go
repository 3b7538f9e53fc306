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
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/clusterimage/sealer/certificate"
	"github.com/clusterimage/sealer/cluster/clustertest/kubeapi"
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
	err = errors.Join(os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644), os.WriteFile(filepath.Join(dir, "admin.conf"), kubeapi.Kubeconfig("https://"+address, ca), 0o644))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: kubeapi.Handler(nodes, noPods), ReadHeaderTimeout: time.Minute}
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

// noPods leaves the list of all pods empty.
func noPods() []byte { return nil }
