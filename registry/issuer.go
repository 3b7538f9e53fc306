package registry

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

// maxAddresses bounds a certificate where a whole network is local.
const maxAddresses = 128

// An issuer has a certificate for the server, signed by the CA.
type issuer struct {
	ca    certificate.Pair
	names []string
	log   *slog.Logger

	mu        sync.Mutex
	addresses []net.IP
	leaf      *tls.Certificate
	renew     time.Time
}

func newIssuer(addr net.Addr, o ServerOptions) (*issuer, error) {
	a, renewed, err := openAuthority(o.CAFile)
	if err != nil {
		return nil, err
	}
	if renewed {
		o.Logger.Warn("the old CA has expired or is about to; clients must trust the new one", "file", o.CAFile)
	}
	i := &issuer{ca: a, log: o.Logger}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, machineNames()...)
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		hosts = append(hosts, tcp.IP.String())
	} else {
		hosts = append(hosts, machineAddresses()...)
	}
	for _, h := range append(hosts, o.Hosts...) {
		i.add(h)
	}
	return i, i.issue()
}

var certName = regexp.MustCompile(`(?i)^(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9])?)*$`)

// CheckCertHost returns nil when s is a name, maybe with "*" as its first label,
// or an address for ServerOptions.Hosts.
func CheckCertHost(s string) error {
	if net.ParseIP(s) != nil || len(s) < 254 && certName.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%q: want a host name or an IP address", s)
}

// machineNames returns the host's name, and its first label.
func machineNames() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	label, _, _ := strings.Cut(name, ".")
	return []string{name, label}
}

// machineAddresses returns the addresses of this machine by which another may
// reach it. Link-local ones need a zone, which no certificate names.
func machineAddresses() []string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// add adds a name or an address, with or without a port.
func (i *issuer) add(host string) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsUnspecified() && !i.covers(ip) && len(i.addresses) < maxAddresses {
			i.addresses = append(i.addresses, ip)
		}
	} else if host != "" && !slices.Contains(i.names, host) {
		i.names = append(i.names, host)
	}
}

func (i *issuer) covers(ip net.IP) bool { return slices.ContainsFunc(i.addresses, ip.Equal) }

// get returns the server's certificate, for tls.Config. It is a new one when the
// old one is near its end, or lacks the address at which the client has reached
// this machine, as after a move to another network.
func (i *issuer) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	stale := time.Now().After(i.renew)
	if local, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok && !local.IP.IsLoopback() && !i.covers(local.IP) && len(i.addresses) < maxAddresses {
		i.addresses = append(i.addresses, local.IP)
		stale = true
	}
	if stale {
		if err := i.issue(); err != nil {
			i.log.Warn("renew the TLS certificate, the old one stays", "error", err)
		}
	}
	return i.leaf, nil
}

// issue makes the certificate. Its key stays in memory.
func (i *issuer) issue() error {
	p, err := i.ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "sealer registry"}, DNSNames: i.names, IPAddresses: i.addresses}, certificate.Life)
	if err != nil {
		return err
	}
	i.leaf = p.TLS()
	i.renew = time.Now().Add(time.Until(p.Certificate.NotAfter) * 2 / 3)
	return nil
}
