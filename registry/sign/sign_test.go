package sign_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"

	"github.com/clusterimage/sealer/registry/sign"
)

func write(t *testing.T, kind string, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// encrypted is a private key as cosign generate-key-pair keeps it.
func encrypted(t *testing.T, der []byte, password string, n int) []byte {
	t.Helper()
	salt, nonce := make([]byte, 32), [24]byte{1}
	key, err := scrypt.Key([]byte(password), salt, 1<<10, 8, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{
		"kdf":        map[string]any{"name": "scrypt", "params": map[string]int{"N": n, "r": 8, "p": 1}, "salt": salt},
		"cipher":     map[string]any{"name": "nacl/secretbox", "nonce": nonce[:]},
		"ciphertext": secretbox.Seal(nil, der, &nonce, (*[32]byte)(key)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSignAndCheck(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := sign.LoadVerifier(write(t, "PUBLIC KEY", pub))
	if err != nil {
		t.Fatal(err)
	}
	password := func() (string, error) { return "secret", nil }
	d := digest.FromString("manifest")
	for kind, b := range map[string][]byte{
		"PRIVATE KEY": p8, "EC PRIVATE KEY": sec1,
		"ENCRYPTED SIGSTORE PRIVATE KEY": encrypted(t, p8, "secret", 1<<10),
		"ENCRYPTED COSIGN PRIVATE KEY":   encrypted(t, p8, "secret", 1<<10),
	} {
		s, err := sign.LoadSigner(write(t, kind, b), password)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		made, err := s.Sign("reg.example/team/app", d)
		if err != nil {
			t.Fatal(err)
		}
		b, sig := made.Payload, made.Signature
		want := `{"critical":{"identity":{"docker-reference":"reg.example/team/app"},"image":{"docker-manifest-digest":"` + d.String() + `"},"type":"cosign container image signature"},"optional":null}`
		if string(b) != want {
			t.Errorf("payload %s\nwant %s", b, want)
		}
		if err := v.Check(sign.Signature{Payload: b, Signature: sig}, d); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for name, err := range map[string]error{
			"another manifest": v.Check(sign.Signature{Payload: b, Signature: sig}, digest.FromString("x")),
			"changed":          v.Check(sign.Signature{Payload: append(b, ' '), Signature: sig}, d),
			"no base64":        v.Check(sign.Signature{Payload: b, Signature: "!"}, d),
			"empty":            v.Check(sign.Signature{Payload: b, Signature: ""}, d),
		} {
			if !errors.Is(err, sign.ErrSignature) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		kind string
		b    []byte
		want string
	}{
		"wrong password": {"ENCRYPTED SIGSTORE PRIVATE KEY", encrypted(t, p8, "another", 1<<10), "wrong password"},
		"much memory":    {"ENCRYPTED SIGSTORE PRIVATE KEY", encrypted(t, p8, "secret", 1<<30), "too much memory"},
		"no JSON":        {"ENCRYPTED SIGSTORE PRIVATE KEY", p8, "unknown way"},
		"public":         {"PUBLIC KEY", pub, "want a private key"},
		"garbage":        {"PRIVATE KEY", []byte("x"), "no ECDSA key"},
	} {
		if _, err := sign.LoadSigner(write(t, tc.kind, tc.b), password); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	otherPub, err := x509.MarshalPKIXPublicKey(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	w, err := sign.LoadVerifier(write(t, "PUBLIC KEY", otherPub))
	if err != nil {
		t.Fatal(err)
	}
	s, err := sign.LoadSigner(write(t, "PRIVATE KEY", p8), password)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.Sign("r", d)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(made, d); !errors.Is(err, sign.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	if _, err := sign.LoadVerifier(write(t, "PRIVATE KEY", p8)); err == nil {
		t.Error("a private key was taken for a public one")
	}
}

// Keys of other kinds than cosign generate-key-pair makes sign images, too.
func TestCheckOtherKeys(t *testing.T) {
	t.Parallel()
	d := digest.FromString("manifest")
	payload := []byte(`{"critical":{"identity":{"docker-reference":"r"},"image":{"docker-manifest-digest":"` + d.String() + `"},"type":"cosign container image signature"}}`)
	edKey, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(payload)
	rsaSig, err := rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key any
		sig []byte
	}{
		"Ed25519": {edKey, ed25519.Sign(edPrivate, payload)},
		"RSA":     {rsaKey.Public(), rsaSig},
	} {
		der, err := x509.MarshalPKIXPublicKey(tc.key)
		if err != nil {
			t.Fatal(err)
		}
		v, err := sign.ParseVerifier(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		good := sign.Signature{Payload: payload, Signature: base64.StdEncoding.EncodeToString(tc.sig)}
		if err := v.CheckAny([]sign.Signature{{}, good}, d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		bad := sign.Signature{Payload: append(payload, ' '), Signature: good.Signature}
		if err := v.CheckAny([]sign.Signature{bad}, d); !errors.Is(err, sign.ErrSignature) {
			t.Errorf("%s: changed content: %v", name, err)
		}
		if err := v.CheckAny(nil, d); !errors.Is(err, sign.ErrSignature) {
			t.Errorf("%s: no signature: %v", name, err)
		}
	}
	if got := sign.Identity(sign.Signature{Payload: payload}); got != "r" {
		t.Errorf("identity %q", got)
	}
	if got, want := sign.Tag(d), "sha256-"+d.Encoded()+".sig"; got != want {
		t.Errorf("tag %s, want %s", got, want)
	}
}
