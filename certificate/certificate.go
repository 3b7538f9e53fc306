package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// AuthorityLife is how long an authority is good for.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// Life is how long a server's certificate is good for: some clients refuse more
	// than 398 days.
	Life = 365 * 24 * time.Hour
	// Renewal is the rest of a life at which a new certificate is made.
	Renewal = 30 * 24 * time.Hour

	// early is how far back a life begins: the clocks of machines differ.
	early = time.Hour

	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// A Pair is a certificate with its key. The zero value is neither.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority that may sign servers' certificates and no
// further authorities. Its serial number, random, stands in its subject, too, and
// tells several authorities of one name apart in a trust store.
func NewAuthority(name string) (Pair, error) {
	serial, err := newSerial()
	if err != nil {
		return Pair{}, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	p, err := Pair{}.issue(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, SerialNumber: serial.Text(16)},
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}, AuthorityLife)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	return p, nil
}

// Issue makes a certificate for a server with the subject and the names of t, and
// a new key. The authority p signs it; it ends with p at the latest. The zero Pair
// lets it sign itself.
func (p Pair) Issue(t *x509.Certificate, life time.Duration) (Pair, error) {
	serial, err := newSerial()
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s: %w", t.Subject.CommonName, err)
	}
	out, err := p.issue(&x509.Certificate{
		SerialNumber: serial, Subject: t.Subject, DNSNames: t.DNSNames, IPAddresses: t.IPAddresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, life)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s: %w", t.Subject.CommonName, err)
	}
	return out, nil
}

func (p Pair) issue(t *x509.Certificate, life time.Duration) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	t.NotBefore, t.NotAfter = now.Add(-early), now.Add(life)
	if p.Key == nil {
		p = Pair{t, key}
	} else if p.Certificate.NotAfter.Before(t.NotAfter) {
		t.NotAfter = p.Certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, t, p.Certificate, key.Public(), p.Key)
	if err != nil {
		return Pair{}, err
	}
	c, err := x509.ParseCertificate(der)
	return Pair{c, key}, err
}

// 120 random bits: RFC 5280 wants positive numbers of at most 20 octets.
func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

// TLS returns the pair as a server shows it.
func (p Pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key, Leaf: p.Certificate}
}

// PEM returns the certificate and the key (PKCS #8) as PEM blocks.
func (p Pair) PEM() (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: p.Certificate.Raw})
	return cert, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// ParseAuthority reads the certificate and the key of an authority from PEM, in
// any order, in one text or in two. Other blocks are passed over.
func ParseAuthority(texts ...[]byte) (Pair, error) {
	var p Pair
	for _, text := range texts {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			var err error
			switch block.Type {
			case pemCertificate:
				p.Certificate, err = x509.ParseCertificate(block.Bytes)
			case pemKey:
				p.Key, err = parseKey(block.Bytes)
			}
			if err != nil {
				return Pair{}, err
			}
		}
	}
	if p.Certificate == nil || p.Key == nil || !p.Certificate.IsCA {
		return Pair{}, errors.New("want the certificate of a CA and its key")
	}
	if public, ok := p.Certificate.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(p.Key.Public()) {
		return Pair{}, errors.New("the key is not that of the certificate")
	}
	return p, nil
}

func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	out, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T", key)
	}
	return out, nil
}
