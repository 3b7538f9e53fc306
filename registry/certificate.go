package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// A keyPair is a certificate and its key in two files. Both are read again when
// one of them changes.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]state // of the files, when they were read last
}

// A state identifies one content of a file, by size and modification time.
type state struct {
	size     int64
	modified time.Time
}

func openKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	k := &keyPair{certFile: certFile, keyFile: keyFile, log: log}
	k.read = k.states()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate: %w", err)
	}
	k.current = &cert
	return k, nil
}

// get returns the certificate in the files, for tls.Config. While the files
// cannot be read or do not match, as when only one of them has been replaced, get
// returns the certificate that it read last.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.states()
	if now == k.read {
		return k.current, nil
	}
	k.read = now
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		k.log.Warn("the TLS certificate has changed and cannot be used, the old one stays", "error", err)
		return k.current, nil
	}
	k.log.Info("the TLS certificate has changed", "file", k.certFile)
	k.current = &cert
	return k.current, nil
}

func (k *keyPair) states() (out [2]state) {
	for i, name := range []string{k.certFile, k.keyFile} {
		if fi, err := os.Stat(name); err == nil {
			out[i] = state{fi.Size(), fi.ModTime()}
		}
	}
	return out
}

// selfSign makes a certificate, which is its own CA, for hosts, this machine's
// name and localhost.
func selfSign(hosts []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	c := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "sealer registry"},
		NotBefore:             time.Now().Add(-time.Hour), // clocks differ
		NotAfter:              time.Now().Add(selfSigned),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	hosts = append(hosts, "localhost")
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	for _, h := range hosts {
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name
		}
		if ip := net.ParseIP(h); ip != nil {
			if !ip.IsUnspecified() {
				c.IPAddresses = append(c.IPAddresses, ip)
			}
		} else if h != "" && !slices.Contains(c.DNSNames, h) {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
