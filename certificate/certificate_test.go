package certificate_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/certificate"
)

func authority(t *testing.T) certificate.Pair {
	t.Helper()
	ca, err := certificate.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestIssue(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	for _, test := range []struct {
		name string
		by   certificate.Pair
		life time.Duration
		want time.Duration
	}{
		{"by an authority", ca, certificate.Life, certificate.Life},
		{"no longer than the authority", ca, 2 * certificate.AuthorityLife, certificate.AuthorityLife},
		{"by itself", certificate.Pair{}, time.Hour, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, err := test.by.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.test"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, test.life)
			if err != nil {
				t.Fatal(err)
			}
			c, root := p.Certificate, test.by.Certificate
			if root == nil {
				root = c
			}
			roots := x509.NewCertPool()
			roots.AddCert(root)
			for _, name := range []string{"web.test", "10.0.0.1"} {
				if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
					t.Error(err)
				}
			}
			if left := time.Until(c.NotAfter); left > test.want || left < test.want-time.Minute {
				t.Errorf("it is good for %v, want %v", left, test.want)
			}
			if !c.NotBefore.Before(time.Now().Add(-50 * time.Minute)) {
				t.Errorf("it is good from %v on: machines whose clocks are behind refuse it", c.NotBefore)
			}
			if c.IsCA || c.Subject.CommonName != "web" {
				t.Errorf("CA: %v, subject %v", c.IsCA, c.Subject)
			}
			if got := p.TLS(); !bytes.Equal(got.Certificate[0], c.Raw) || got.PrivateKey != p.Key {
				t.Error("TLS shows another certificate")
			}
		})
	}
}

// An authority signs servers' certificates, and no other authorities.
func TestNewAuthority(t *testing.T) {
	t.Parallel()
	a, b := authority(t), authority(t)
	c := a.Certificate
	if !c.IsCA || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("CA: %v, path of length 0: %v, usage %b", c.IsCA, c.MaxPathLenZero, c.KeyUsage)
	}
	if c.Subject.SerialNumber == "" || c.Subject.SerialNumber == b.Certificate.Subject.SerialNumber {
		t.Errorf("subjects %v and %v are one", c.Subject, b.Certificate.Subject)
	}
}

func TestParseAuthority(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	leaf, err := ca.Issue(&x509.Certificate{}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.PEM()
	if err != nil {
		t.Fatal(err)
	}
	other, otherKey, err := leaf.PEM()
	if err != nil {
		t.Fatal(err)
	}
	garbage := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for _, test := range []struct {
		name  string
		texts [][]byte
		err   string
	}{
		{"two texts", [][]byte{cert, key}, ""},
		{"one text, the key first", [][]byte{append(bytes.Clone(key), cert...)}, ""},
		{"nothing", nil, "want the certificate of a CA and its key"},
		{"no key", [][]byte{cert}, "want the certificate of a CA and its key"},
		{"another's key", [][]byte{cert, otherKey}, "the key is not that of the certificate"},
		{"no authority", [][]byte{other, otherKey}, "want the certificate of a CA and its key"},
		{"a damaged key", [][]byte{cert, garbage}, "asn1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, err := certificate.ParseAuthority(test.texts...)
			switch {
			case test.err == "" && err != nil:
				t.Fatal(err)
			case test.err == "" && (!p.Certificate.Equal(ca.Certificate) || !p.Key.Equal(ca.Key)):
				t.Error("another pair")
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want %s", err, test.err)
			}
		})
	}
}
