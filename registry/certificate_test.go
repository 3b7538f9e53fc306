package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry"
)

// writePair makes a certificate with a serial number, and its key.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		// Whatever the clock of the file system is worth.
		at := time.Unix(serial*1000, 0)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, certFile, keyFile, 1)
	s := serve(t, http.NotFoundHandler(), registry.ServerOptions{CertFile: certFile, KeyFile: keyFile})
	expect := func(serial int64) {
		t.Helper()
		conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("certificate %d, want %d", got, serial)
		}
	}
	expect(1)
	writePair(t, certFile, keyFile, 2)
	expect(2)
	expect(2)
	// Half of a renewal, or nonsense: the old one stays.
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(2)
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	expect(2)
	writePair(t, certFile, keyFile, 3)
	expect(3)
}
