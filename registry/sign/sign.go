// Package sign makes and checks cosign's signatures with local keys, of a "simple
// signing" payload, which names the digest of a manifest. It makes them with ECDSA
// over SHA-256.
//
// Sources: the payload is containers/image's docs/containers-signature.5.md with
// the type of github.com/sigstore/cosign/specs/SIGNATURE_SPEC.md; the manifest is of
// that specification's "Storage"; the encrypted private key is that of
// github.com/secure-systems-lab/go-securesystemslib/encrypted: scrypt and NaCl's
// secretbox. Neither a transparency log nor certificates are used: there is no
// network but the registry.
package sign

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

const (
	// MediaTypePayload is the media type of a payload, a layer of the signatures'
	// manifest.
	MediaTypePayload = "application/vnd.dev.cosign.simplesigning.v1+json"
	// Annotation of that layer: the signature, base64.
	Annotation = "dev.cosignproject.cosign/signature"

	// ArtifactType is that of a signatures' manifest which names the image as its
	// subject, as cosign --registry-referrers-mode=oci-1-1 makes it.
	ArtifactType = "application/vnd.dev.cosign.artifact.sig.v1+json"

	payloadType = "cosign container image signature"
	maxKey      = 64 << 10 // bytes of a key file
)

// A payload is the signed document.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest digest.Digest `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// A Signer signs with a private key.
type Signer struct{ key *ecdsa.PrivateKey }

// LoadSigner reads an ECDSA key from a PEM file: as cosign generate-key-pair writes
// it, encrypted, or PKCS #8 or SEC 1 as openssl writes it. password is called for
// an encrypted one. No error shows a part of the key.
func LoadSigner(file string, password func() (string, error)) (*Signer, error) {
	block, err := readPEM(file)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	der := block.Bytes
	var key any
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		pw, err := password()
		if err != nil {
			return nil, fmt.Errorf("read private key %s: %w", file, err)
		}
		if der, err = decryptKey(der, pw); err != nil {
			return nil, fmt.Errorf("read private key %s: %w", file, err)
		}
		key, err = x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			key = nil
		}
	case "PRIVATE KEY":
		key, _ = x509.ParsePKCS8PrivateKey(der)
	case "EC PRIVATE KEY":
		key, _ = x509.ParseECPrivateKey(der)
	default:
		return nil, fmt.Errorf("read private key %s: a %q, want a private key in PEM", file, block.Type)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || ec == nil {
		return nil, fmt.Errorf("read private key %s: it is no ECDSA key", file)
	}
	return &Signer{ec}, nil
}

func readPEM(file string) (*pem.Block, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxKey {
		return nil, fmt.Errorf("%s: %d bytes are no key", file, fi.Size())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s: it is not PEM", file)
	}
	return block, nil
}

// decryptKey decrypts a private key as cosign keeps it.
func decryptKey(b []byte, password string) ([]byte, error) {
	var e struct {
		KDF struct {
			Name   string `json:"name"`
			Params struct {
				N int `json:"N"`
				R int `json:"r"`
				P int `json:"p"`
			} `json:"params"`
			Salt []byte `json:"salt"`
		} `json:"kdf"`
		Cipher struct {
			Name  string `json:"name"`
			Nonce []byte `json:"nonce"`
		} `json:"cipher"`
		Ciphertext []byte `json:"ciphertext"`
	}
	if json.Unmarshal(b, &e) != nil || e.KDF.Name != "scrypt" || e.Cipher.Name != "nacl/secretbox" || len(e.Cipher.Nonce) != 24 {
		return nil, errors.New("it is encrypted in an unknown way")
	}
	p := e.KDF.Params
	if p.N > 1<<20 || p.R > 32 || p.P > 16 { // a gigabyte and more
		return nil, errors.New("its encryption asks for too much memory")
	}
	derived, err := scrypt.Key([]byte(password), e.KDF.Salt, p.N, p.R, p.P, 32)
	if err != nil {
		return nil, err
	}
	out, ok := secretbox.Open(nil, e.Ciphertext, (*[24]byte)(e.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("wrong password")
	}
	return out, nil
}

// Sign returns a signature of the manifest d in repository.
func (s *Signer) Sign(repository string, d digest.Digest) (Signature, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = repository, d, payloadType
	b, err := json.Marshal(p)
	if err != nil {
		return Signature{}, err
	}
	signature, err := s.SignBlob(b)
	if err != nil {
		return Signature{}, fmt.Errorf("sign %s: %w", d, err)
	}
	return Signature{Payload: b, Signature: signature}, nil
}

// SignBlob returns the signature of b itself, base64, as "cosign sign-blob" makes
// it.
func (s *Signer) SignBlob(b []byte) (string, error) {
	sum := sha256.Sum256(b)
	sig, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(sig), nil
}
