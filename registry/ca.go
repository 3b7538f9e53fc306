package registry

import (
	"crypto"
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
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	caLife = 10 * 365 * 24 * time.Hour
	// A CA that ends before its clients notice is worse than a new one at a
	// restart.
	caRenewal = 30 * 24 * time.Hour

	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// An authority is a CA with its key.
type authority struct {
	ca  *x509.Certificate
	key crypto.Signer
}

// openAuthority reads the CA in file, or makes it there; "" makes one in memory.
// renewed tells that the file's own one had expired.
func openAuthority(file string) (a authority, renewed bool, err error) {
	if file == "" {
		a, _, err = newAuthority()
		return a, false, err
	}
	a, err = readAuthority(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return a, false, err
	}
	if !missing && time.Until(a.ca.NotAfter) > caRenewal {
		return a, false, nil
	}
	a, content, err := newAuthority()
	if err != nil {
		return a, false, err
	}
	put := os.Rename
	if missing {
		put = os.Link // fails where another process has made one meanwhile
	}
	err = writeAuthority(file, content, put)
	if missing && errors.Is(err, fs.ErrExist) {
		a, err = readAuthority(file)
	}
	return a, !missing, err
}

// readAuthority refuses a key that other users can read: whoever has it is
// trusted as this registry.
func readAuthority(file string) (a authority, err error) {
	fi, err := os.Stat(file)
	if err != nil {
		return a, err
	}
	if fi.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return a, fmt.Errorf("%s: mode %04o lets others read the key of the CA: chmod 600 it, or remove it for a new CA if anybody has", file, fi.Mode().Perm())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case pemCertificate:
			a.ca, err = x509.ParseCertificate(block.Bytes)
		case pemKey:
			a.key, err = parseKey(block.Bytes)
		}
		if err != nil {
			return a, fmt.Errorf("%s: %w", file, err)
		}
	}
	if a.ca == nil || a.key == nil || !a.ca.IsCA {
		return a, fmt.Errorf("%s: want the certificate of a CA and its key; remove the file for a new CA", file)
	}
	if public, ok := a.ca.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(a.key.Public()) {
		return a, fmt.Errorf("%s: the key is not that of the certificate; remove the file for a new CA", file)
	}
	return a, nil
}

func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T", key)
	}
	return signer, nil
}

func newAuthority() (a authority, content []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return a, nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	c := &x509.Certificate{
		SerialNumber: serial,
		// The serial number tells several CAs of a machine apart in a trust store.
		Subject:               pkix.Name{CommonName: "sealer registry CA " + name, SerialNumber: serial.Text(16)},
		NotBefore:             time.Now().Add(-time.Hour), // clocks differ
		NotAfter:              time.Now().Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return a, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return a, nil, err
	}
	content = append(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: private})...)
	a.key = key
	a.ca, err = x509.ParseCertificate(der)
	return a, content, err
}

// writeAuthority makes the file in one step, which put does with the temporary
// file's name and file.
func writeAuthority(file string, content []byte, put func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".ca-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(f.Name()); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return put(f.Name(), file)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}
