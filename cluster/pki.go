package cluster

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

// A pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

// ca returns the small CA of the cluster's registry; the first call makes it.
func (s state) ca() (pair, error) {
	var p pair
	var err, kerr error
	p.cert, err = os.ReadFile(filepath.Join(s.dir, "pki", "ca.crt"))
	p.key, kerr = os.ReadFile(filepath.Join(s.dir, "pki", "ca.key"))
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(kerr, fs.ErrNotExist) {
		return p, errors.Join(err, kerr)
	}
	made, err := certificate.NewAuthority("sealer " + filepath.Base(s.dir))
	if err != nil {
		return p, err
	}
	if p.cert, p.key, err = made.PEM(); err != nil {
		return p, err
	}
	return p, errors.Join(s.write("pki/ca.key", p.key), s.write("pki/ca.crt", p.cert))
}

// registryCert returns the certificate of a machine's registry, which is kept
// so that a second run does not change it.
func (s state) registryCert(ca pair, addresses, names []string) (pair, error) {
	base := filepath.Join("pki", "registry-"+filepath.Base(addresses[0]))
	var p pair
	var err, kerr error
	p.cert, err = os.ReadFile(filepath.Join(s.dir, base+".crt"))
	p.key, kerr = os.ReadFile(filepath.Join(s.dir, base+".key"))
	if err == nil && kerr == nil && fits(p.cert, ca.cert, slices.Concat(names, addresses)) {
		return p, nil
	}
	t := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, a := range addresses {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(a))
	}
	authority, err := certificate.ParseAuthority(ca.cert, ca.key)
	if err != nil {
		return p, fmt.Errorf("the registry's authority in %s: %w", filepath.Join(s.dir, "pki"), err)
	}
	made, err := authority.Issue(t, certificate.Life)
	if err != nil {
		return p, fmt.Errorf("registry on %s: %w", addresses[0], err)
	}
	if p.cert, p.key, err = made.PEM(); err != nil {
		return p, err
	}
	return p, errors.Join(s.write(base+".key", p.key), s.write(base+".crt", p.cert))
}

// fits says whether a certificate is of the CA, for all names, and good for
// some time yet.
func fits(cert, ca []byte, names []string) bool {
	block, _ := pem.Decode(cert)
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Until(c.NotAfter) < certificate.Renewal {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, n := range names {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: n}); err != nil {
			return false
		}
	}
	return true
}
