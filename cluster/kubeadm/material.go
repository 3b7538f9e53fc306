package kubeadm

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// Material is the secrets and hashes with which a machine joins. Token and
// CertificateKey are secrets: they stand in no plan, journal or log.
type Material struct {
	Token          string   // NewToken
	CertificateKey string   // NewCertificateKey; for masters
	CAHashes       []string // CAHash of ca.crt; for joins
}

// TokenTTL is how long a token is good for, as kubeadm writes it.
const TokenTTL = "2h0m0s"

// tokenRE is the form of a bootstrap token: the part before the dot is its
// public id.
var tokenRE = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// NewToken makes a bootstrap token, 114 random bits of them.
func NewToken() (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for i := range 22 {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("make token: %w", err)
		}
		if i == 6 {
			b.WriteByte('.')
		}
		b.WriteByte(letters[n.Int64()])
	}
	return b.String(), nil
}

// TokenID returns a token's public part, which may be printed.
func TokenID(token string) string {
	id, _, _ := strings.Cut(token, ".")
	return id
}

// NewCertificateKey makes the AES key, 32 bytes in hex, that encrypts the
// masters' certificates in the cluster while masters join.
func NewCertificateKey() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make certificate key: %w", err)
	}
	return hex.EncodeToString(key), nil
}

// CAHash returns the pin of a CA, "sha256:HEX" of its public key
// (SubjectPublicKeyInfo), from the PEM of ca.crt.
func CAHash(ca []byte) (string, error) {
	block, _ := pem.Decode(ca)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", errors.New("read ca.crt: is no PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read ca.crt: %w", err)
	}
	if !cert.IsCA {
		return "", errors.New("read ca.crt: the certificate is of no CA")
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Fill adds the material to documents that Init or Join made without it.
func (m Material) Fill(documents []byte) ([]byte, error) {
	f, err := spec.Parse("kubeadm's documents", documents)
	if err != nil {
		return nil, err
	}
	found := false
	for _, d := range f.Kubeadm {
		switch d.Kind {
		case kindInit:
			found, err = true, m.fillInit(d.Tree)
		case kindJoin:
			found, err = true, m.fillJoin(d.Tree)
		}
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, errors.New("kubeadm's documents: neither InitConfiguration nor JoinConfiguration is among them")
	}
	return Documents{List: f.Kubeadm}.YAML()
}

func (m Material) fillInit(doc tree) error {
	if !tokenRE.MatchString(m.Token) {
		return errToken
	}
	doc["bootstrapTokens"] = append([]any{tree{
		"token": m.Token, "ttl": TokenTTL, "usages": []any{"signing", "authentication"},
		"groups": []any{"system:bootstrappers:kubeadm:default-node-token"},
	}}, list(doc["bootstrapTokens"])...)
	if m.CertificateKey != "" {
		doc["certificateKey"] = m.CertificateKey
	}
	return nil
}

func (m Material) fillJoin(doc tree) error {
	var errs []error
	if !tokenRE.MatchString(m.Token) {
		errs = append(errs, errToken)
	}
	if len(m.CAHashes) == 0 {
		errs = append(errs, errors.New("a join needs the hash of the cluster's CA"))
	}
	discovery := sub(doc, "discovery")
	bootstrap := sub(discovery, "bootstrapToken")
	bootstrap["token"], bootstrap["caCertHashes"] = m.Token, anyList(m.CAHashes)
	discovery["tlsBootstrapToken"] = m.Token
	if control, master := doc["controlPlane"].(tree); master {
		if m.CertificateKey == "" {
			errs = append(errs, errors.New("a master cannot join without a certificate key"))
		}
		control["certificateKey"] = m.CertificateKey
	}
	return errors.Join(errs...)
}

// errToken does not hold the token, which is a secret.
var errToken = errors.New("the bootstrap token has not kubeadm's form")
