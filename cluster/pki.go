package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

// How long certificates of the registry are good for, and from when on they are
// made anew.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	certLife = 365 * 24 * time.Hour
	certLeft = 30 * 24 * time.Hour
)

// ca returns the small CA of the cluster's registry; the first call makes it.
func (s state) ca() (pair, error) {
	var p pair
	var err, kerr error
	p.cert, err = os.ReadFile(filepath.Join(s.dir, "pki", "ca.crt"))
	p.key, kerr = os.ReadFile(filepath.Join(s.dir, "pki", "ca.key"))
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(kerr, fs.ErrNotExist) {
		return p, errors.Join(err, kerr)
	}
	p, err = issue(pair{}, &x509.Certificate{
		Subject: pkix.Name{CommonName: "sealer " + filepath.Base(s.dir)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}, caLife)
	if err != nil {
		return p, fmt.Errorf("certificate authority: %w", err)
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
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, a := range addresses {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(a))
	}
	p, err = issue(ca, t, certLife)
	if err != nil {
		return p, fmt.Errorf("certificate of the registry on %s: %w", addresses[0], err)
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
	if err != nil || time.Until(c.NotAfter) < certLeft {
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

// issue signs a certificate with a new key; without a CA it signs itself.
func issue(ca pair, t *x509.Certificate, life time.Duration) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return pair{}, err
	}
	// An hour back: the clocks of the machines are not all the same.
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(life)
	parent, signer := t, key
	if ca.cert != nil {
		if parent, signer, err = parse(ca); err != nil {
			return pair{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

func parse(p pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, _ := pem.Decode(p.cert)
	private, _ := pem.Decode(p.key)
	if cert == nil || private == nil {
		return nil, nil, errors.New("the CA's files are damaged")
	}
	c, err := x509.ParseCertificate(cert.Bytes)
	if err != nil {
		return nil, nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the CA's key is of another kind")
	}
	return c, key, nil
}
