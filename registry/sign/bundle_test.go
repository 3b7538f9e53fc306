package sign

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// A signature that cosign 3.1.3 made, by "cosign sign --key cosign.key
// --tlog-upload=false", and its key.
const (
	cosignBundle = `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial":{"publicKey":{"hint":"Kd+29HeJLN6+8tNkxdhk9OumiCcDbV5jsqROoE8v4Q8="}}, "dsseEnvelope":{"payload":"eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEiLCAic3ViamVjdCI6W3siZGlnZXN0Ijp7InNoYTI1NiI6ImZkNDc5NTAxNjZkM2Q1OWY0MzgwYzYyODE4N2Q5YjhkZGYyZTdmMmFhMjI1OTk4ZWM4NDQ5MDE1MDQ5NmM1MjIifSwgImFubm90YXRpb25zIjp7fX1dLCAicHJlZGljYXRlVHlwZSI6Imh0dHBzOi8vc2lnc3RvcmUuZGV2L2Nvc2lnbi9zaWduL3YxIiwgInByZWRpY2F0ZSI6e319", "payloadType":"application/vnd.in-toto+json", "signatures":[{"sig":"MEUCIEjHwWK/IObuNYYXmU6BUDJvvLKb2SRzDIhgPULtAkX6AiEAk25vfZzR6kfYe4yC78ItwEhE49LmdszYKC7eOExGJHw="}]}}`
	cosignKey    = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8sHVWAPI4uOZ+j5e1YHbi1e+xmLe
R3PBBNSfxZWP6meQOWMLq8mOLRlQJ7txNJAKSN6Hw2VtkZIEUPIwqZub3w==
-----END PUBLIC KEY-----
`
	cosignSubject = digest.Digest("sha256:fd47950166d3d59f4380c628187d9b8ddf2e7f2aa225998ec84490150496c522")
)

func TestBundle(t *testing.T) {
	t.Parallel()
	key, err := ParseVerifier([]byte(cosignKey))
	if err != nil {
		t.Fatal(err)
	}
	list, err := ParseBundle([]byte(cosignBundle))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := key.Check(list[0], cosignSubject); err != nil {
		t.Error(err)
	}
	// It stays one in the store and in an archive.
	b, err := json.Marshal(list[0])
	var again Signature
	if err != nil || json.Unmarshal(b, &again) != nil || key.Check(again, cosignSubject) != nil {
		t.Errorf("not as it was: %v", err)
	}
	if err := key.Check(list[0], digest.FromString("other")); !errors.Is(err, ErrSignature) {
		t.Errorf("of another digest: %v", err)
	}
	changed := list[0]
	changed.Payload = []byte(strings.Replace(string(changed.Payload), "fd47", "fd48", 1))
	if err := key.Check(changed, "sha256:fd48"+cosignSubject[11:]); !errors.Is(err, ErrSignature) {
		t.Errorf("changed: %v", err)
	}
}

// A key that signs attestations, too, has not signed the image by them.
func TestBundleKinds(t *testing.T) {
	t.Parallel()
	d := digest.FromString("image")
	statement := func(predicate string) string {
		return `{"predicateType":"` + predicate + `","subject":[{"digest":{"sha256":"` + d.Encoded() + `"}}]}`
	}
	good := preAuthEncoding(statementType, []byte(statement(signPredicate)))
	if err := checkStatement(good, d); err != nil {
		t.Error(err)
	}
	for name, in := range map[string]string{
		"attestation": string(preAuthEncoding(statementType, []byte(statement("https://spdx.dev/Document")))),
		"type":        string(preAuthEncoding("text/plain", []byte(statement(signPredicate)))),
		"subject":     string(preAuthEncoding(statementType, []byte(`{"predicateType":"`+signPredicate+`"}`))),
		"json":        string(preAuthEncoding(statementType, []byte("x"))),
		"more":        string(good) + "x",
		"cut":         string(good[:len(good)-1]),
		"length":      paePrefix + "99999999999999999999 x",
		"negative":    paePrefix + "-1 x",
		"empty":       paePrefix,
	} {
		if err := checkStatement([]byte(in), d); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, in := range []string{"", "[]", `{"dsseEnvelope":{"payload":"*"}}`} {
		if list, err := ParseBundle([]byte(in)); err == nil {
			t.Errorf("%q: %v", in, list)
		}
	}
	if list, err := ParseBundle([]byte(`{"messageSignature":{"signature":"` + base64.StdEncoding.EncodeToString([]byte("x")) + `"}}`)); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}
