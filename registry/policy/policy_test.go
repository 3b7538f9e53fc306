package policy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/policy"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/sign"
)

func load(t *testing.T, content string) (*policy.Policy, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return policy.Load(file)
}

func parse(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keyPair returns a signer and its public key, base64 of PEM.
func keyPair(t *testing.T) (*sign.Signer, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sign.LoadSigner(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if der, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	return s, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestMostSpecific(t *testing.T) {
	t.Parallel()
	const yes, no = `[{"type":"insecureAcceptAnything"}]`, `[{"type":"reject"}]`
	p, err := load(t, `{"default":`+no+`,"transports":{"atomic":{"":`+yes+`},"docker":{
		"reg.example/a":`+yes+`,"reg.example/a/b":`+no+`,"reg.example/a/b/c":`+yes+`,"reg.example/a/b/c:bad":`+no+`,
		"*.wild.example":`+yes+`,"x.wild.example":`+no+`}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]bool{
		"reg.example/a:1": true, "reg.example/a/x:1": true, "reg.example/ab:1": false, "reg.example/a/b:1": false,
		"reg.example/a/b/c:1": true, "reg.example/a/b/c:bad": false, "reg.example/a/b/c:bad@sha256:" + strings.Repeat("a", 64): false,
		"reg.example:5000/a:1": false, "y.wild.example/a:1": true, "y.z.wild.example:5000/a:1": true,
		"x.wild.example/a:1": false, "wild.example/a:1": false, "nginx": false,
	} {
		_, err := p.Allow(parse(t, in))
		if (err == nil) != want || err != nil && !errors.Is(err, policy.ErrRefused) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if p, err = load(t, `{"default":`+no+`,"transports":{"docker":{"":`+yes+`}}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Allow(parse(t, "nginx")); err != nil {
		t.Errorf(`scope "": %v`, err)
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	s, key := keyPair(t)
	d := digest.FromString("x")
	at := "@" + d.String()
	for _, tc := range []struct {
		identity, image, signed string
		want                    bool
	}{
		{"", "r.io/a:1", "r.io/a:1", true},
		{"", "r.io/a:1", "r.io/a", false},
		{"", "r.io/a:1", "r.io/a:2", false},
		{"", "r.io/a" + at, "r.io/a", true},
		{"", "r.io/a:1" + at, "r.io/a", true},
		{"", "r.io/a" + at, "r.io/b", false},
		{"", "nginx:1", "index.docker.io/library/nginx:1", true},
		{"", "r.io/a:1", "", false},
		{`{"type":"matchExact"}`, "r.io/a:1", "r.io/a:1", true},
		{`{"type":"matchExact"}`, "r.io/a" + at, "r.io/a", false},
		{`{"type":"matchExact"}`, "r.io/a" + at, "r.io/a" + at, true},
		{`{"type":"matchRepository"}`, "r.io/a:1", "r.io/a", true},
		{`{"type":"matchRepository"}`, "r.io/a:1", "r.io/a:2", true},
		{`{"type":"matchRepository"}`, "r.io/a:1", "r.io/a/b", false},
		{`{"type":"exactReference","dockerReference":"r.io/x:9"}`, "r.io/a:1", "r.io/x:9", true},
		{`{"type":"exactReference","dockerReference":"r.io/x:9"}`, "r.io/a:1", "r.io/a:1", false},
		{`{"type":"exactRepository","dockerRepository":"r.io/x"}`, "r.io/a:1", "r.io/x:9", true},
		{`{"type":"exactRepository","dockerRepository":"r.io/x"}`, "r.io/a:1", "r.io/a", false},
		{`{"type":"remapIdentity","prefix":"m.io","signedPrefix":"r.io/up"}`, "m.io/a:1", "r.io/up/a:1", true},
		{`{"type":"remapIdentity","prefix":"m.io","signedPrefix":"r.io/up"}`, "m.io/a" + at, "r.io/up/a", true},
		{`{"type":"remapIdentity","prefix":"m.io/a","signedPrefix":"r.io/a"}`, "m.io/ab:1", "r.io/ab:1", false},
		{`{"type":"remapIdentity","prefix":"m.io/a","signedPrefix":"r.io/a"}`, "m.io/ab:1", "m.io/ab:1", true},
		{`{"type":"remapIdentity","prefix":"m.io/a","signedPrefix":"r.io/z"}`, "m.io/a:1", "r.io/z:1", true},
	} {
		field := ""
		if tc.identity != "" {
			field = `,"signedIdentity":` + tc.identity
		}
		p, err := load(t, `{"default":[{"type":"sigstoreSigned","keyData":"`+key+`"`+field+`}]}`)
		if err != nil {
			t.Errorf("%s: %v", tc.identity, err)
			continue
		}
		made, err := s.Sign(tc.signed, d)
		if err != nil {
			t.Fatal(err)
		}
		r := parse(t, tc.image)
		if signed, err := p.Allow(r); !signed || err != nil {
			t.Errorf("%s: signed %v: %v", tc.image, signed, err)
		}
		err = p.Judge(r, d, []sign.Signature{made})
		if (err == nil) != tc.want || err != nil && !(errors.Is(err, policy.ErrRefused) && errors.Is(err, sign.ErrSignature)) {
			t.Errorf("%s: %s signed as %q: %v", tc.identity, tc.image, tc.signed, err)
		}
	}
}

// Each requirement of a list must hold; of several keys one is enough.
func TestSeveral(t *testing.T) {
	t.Parallel()
	one, oneKey := keyPair(t)
	two, twoKey := keyPair(t)
	d, r := digest.FromString("x"), parse(t, "r.io/a@"+digest.FromString("x").String())
	signed := func(s *sign.Signer) sign.Signature {
		made, err := s.Sign("r.io/a", d)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	both, err := load(t, `{"default":[{"type":"sigstoreSigned","keyData":"`+oneKey+`"},{"type":"sigstoreSigned","keyData":"`+twoKey+`"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	either, err := load(t, `{"default":[{"type":"sigstoreSigned","keyDatas":["`+oneKey+`","`+twoKey+`"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Judge(r, d, []sign.Signature{signed(one)}); err == nil {
		t.Error("one signature was enough for two requirements")
	}
	if err := both.Judge(r, d, []sign.Signature{signed(one), signed(two)}); err != nil {
		t.Error(err)
	}
	if err := either.Judge(r, d, []sign.Signature{{}, signed(two)}); err != nil {
		t.Error(err)
	}
	if err := either.Judge(r, digest.FromString("y"), []sign.Signature{signed(two)}); err == nil {
		t.Error("a signature of another digest was taken")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	signed := func(rest string) string { return `{"default":[{"type":"sigstoreSigned"` + rest + `}]}` }
	for content, want := range map[string]string{
		``:                                      "EOF",
		`{}`:                                    "default is missing",
		`{"default":[]}`:                        "the list of requirements is empty",
		`{"default":[{"type":"rejct"}]}`:        `unknown type "rejct"`,
		`{"default":[{"type":"reject","x":1}]}`: `unknown field "x"`,
		`{"default":[{"type":"reject"}],"defualt":[]}`:                                  `unknown field "defualt"`,
		`{"default":[{"type":"reject"}],"default":[{"type":"insecureAcceptAnything"}]}`: `"default" stands twice`,
		`{"default":[{"type":"reject"}]} {}`:                                            "behind its end",
		`{"default":[{"type":"reject"}],"transports":{"docker":{"a.io":[]}}}`:           `transports.docker["a.io"]: the list`,
		signed(``): "want one of keyPath",
		signed(`,"keyPath":"/a","keyPaths":["/b"]`):             "want one of keyPath",
		signed(`,"keyPaths":[]`):                                "want one of keyPath",
		signed(`,"keyData":"%"`):                                "illegal base64",
		signed(`,"keyPth":"/a"`):                                `unknown field "keyPth"`,
		signed(`,"keyPath":"/a","signedIdentity":{"type":"x"}`): `unknown type "x"`,
		signed(`,"keyPath":"/a","signedIdentity":{"type":"exactReference","dockerReference":"r.io/a"}`):     "with a tag or digest",
		signed(`,"keyPath":"/a","signedIdentity":{"type":"exactRepository","dockerRepository":"r.io/a:1"}`): "without a tag",
		signed(`,"keyPath":"/a","signedIdentity":{"type":"remapIdentity","prefix":"m.io"}`):                 `prefix ""`,
		signed(`,"keyPath":"/a","signedIdentity":{"type":"matchExact","prefix":"m.io"}`):                    "prefix does not belong to matchExact",
	} {
		if _, err := load(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
	for content, want := range map[string]string{
		signed(`,"fulcio":{"caPath":"/a"}`):                                    "fulcio or pki is not supported",
		signed(`,"keyPath":"/a","rekorPublicKeyPath":"/b"`):                    "transparency log",
		`{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a"}]}`: "signedBy is not supported",
		`{"default":[{"type":"insecureAcceptAnything"},{"type":"reject"}]}`:    "reject",
	} {
		p, err := load(t, content)
		if err != nil {
			t.Errorf("%s: %v", content, err)
			continue
		}
		if _, err := p.Allow(parse(t, "a")); !errors.Is(err, policy.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
