package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrSignature is wrapped by errors about a signature that is missing or wrong.
var ErrSignature = errors.New("no valid signature")

// A Signature is one of an image: a payload that names the image's digest, and the
// signature of these bytes. The payload is cosign's "simple signing" document or, of
// a bundle, the pre-authentication encoding of a statement.
type Signature struct {
	Payload   []byte `json:"payload"`
	Signature string `json:"signature"` // base64
}

// Tag returns the tag under which cosign keeps the signatures of the manifest or
// index d, in its repository.
func Tag(d digest.Digest) string { return strings.Replace(d.String(), ":", "-", 1) + ".sig" }

// A Verifier checks signatures with a public key.
type Verifier struct{ key crypto.PublicKey }

// LoadVerifier reads a public key from a PEM file, as cosign and openssl write it:
// ECDSA, Ed25519 or RSA.
func LoadVerifier(file string) (*Verifier, error) {
	block, err := readPEM(file)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	v, err := newVerifier(block)
	if err != nil {
		return nil, fmt.Errorf("read public key %s: %w", file, err)
	}
	return v, nil
}

// ParseVerifier reads a public key from the content of a PEM file.
func ParseVerifier(content []byte) (*Verifier, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("read public key: it is not PEM")
	}
	v, err := newVerifier(block)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	return v, nil
}

func newVerifier(block *pem.Block) (*Verifier, error) {
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("a %q, want a PUBLIC KEY in PEM", block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch key.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		return &Verifier{key}, nil
	}
	return nil, fmt.Errorf("a %T, and only ECDSA, Ed25519 and RSA keys are supported", key)
}

// Check returns an error that wraps ErrSignature unless s is v's signature and names
// the manifest d. As in cosign, the repository in it is not compared: an image that
// was copied keeps its signature; see Identity.
func (v *Verifier) Check(s Signature, d digest.Digest) error {
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return fmt.Errorf("%w: it is not base64", ErrSignature)
	}
	if !v.signed(s.Payload, sig) {
		return fmt.Errorf("%w: it is another key's, or the content was changed", ErrSignature)
	}
	if strings.HasPrefix(string(s.Payload), paePrefix) {
		return checkStatement(s.Payload, d)
	}
	var p payload
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if p.Critical.Type != payloadType || p.Critical.Image.Digest != d {
		return fmt.Errorf("%w: it is of %.100q, want %s", ErrSignature, string(p.Critical.Image.Digest), d)
	}
	return nil
}

// CheckAny returns nil when one of list is v's signature of d, else an error that
// wraps ErrSignature and says why each is not.
func (v *Verifier) CheckAny(list []Signature, d digest.Digest) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: %s has no signature", ErrSignature, d)
	}
	var err error
	for _, s := range list {
		if err = v.Check(s, d); err == nil {
			return nil
		}
	}
	return err
}

// signed reports whether sig is v's of content. The schemes are cosign's defaults:
// of RSA, PKCS #1 v1.5.
func (v *Verifier) signed(content, sig []byte) bool {
	sum := sha256.Sum256(content)
	switch key := v.key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], sig)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(key, content, sig)
	}
	return false
}

// Identity returns the name that the payload of a signature gives to the image, ""
// where it gives none. It is worth as much as the signature: Check it first.
func Identity(s Signature) string {
	var p payload
	if json.Unmarshal(s.Payload, &p) != nil {
		return ""
	}
	return p.Critical.Identity.Reference
}
