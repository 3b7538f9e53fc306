package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/clusterimage/sealer/registry/sign"
)

// A requirement is one that an image must satisfy, together with the others of its
// scope.
type requirement struct {
	refuses  string // why every image is refused; "" for no such requirement
	signed   bool   // sigstoreSigned
	identity identity
	keys     func() ([]*sign.Verifier, error) // any of them
}

// parse reads a policy. As in podman, a key that is unknown or stands twice is an
// error: a misspelt rule must not be a missing one.
func parse(b []byte) (*Policy, error) {
	if err := unique(json.NewDecoder(bytes.NewReader(b))); err != nil {
		return nil, err
	}
	var file struct {
		Default    *[]json.RawMessage                      `json:"default"`
		Transports map[string]map[string][]json.RawMessage `json:"transports"`
	}
	if err := strict(b, &file); err != nil {
		return nil, err
	}
	if file.Default == nil {
		return nil, errors.New("default is missing")
	}
	p := &Policy{byName: map[string][]requirement{}}
	var err error
	if p.others, err = requirements(*file.Default); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	for transport, scopes := range file.Transports {
		for scope, raw := range scopes {
			list, err := requirements(raw)
			if err != nil {
				return nil, fmt.Errorf("transports.%s[%q]: %w", transport, scope, err)
			}
			if transport == "docker" {
				p.byName[scope] = list
			}
		}
	}
	return p, nil
}

func requirements(raw []json.RawMessage) ([]requirement, error) {
	if len(raw) == 0 {
		return nil, errors.New("the list of requirements is empty")
	}
	var out []requirement
	for _, b := range raw {
		q, err := parseRequirement(b)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

func parseRequirement(b []byte) (requirement, error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &kind); err != nil {
		return requirement{}, err
	}
	switch kind.Type {
	case "insecureAcceptAnything", "reject":
		if err := strict(b, &kind); err != nil {
			return requirement{}, err
		}
		if kind.Type == "reject" {
			return requirement{refuses: "reject"}, nil
		}
		return requirement{}, nil
	case "signedBy":
		return requirement{refuses: "signedBy is not supported: sealer checks sigstoreSigned signatures, and none of GPG"}, nil
	case "signedBaseLayer":
		return requirement{refuses: "signedBaseLayer is not supported"}, nil
	case "sigstoreSigned":
		return parseSigned(b)
	}
	return requirement{}, fmt.Errorf("unknown type %q: want insecureAcceptAnything, reject or sigstoreSigned", kind.Type)
}

// signedJSON is a sigstoreSigned requirement.
type signedJSON struct {
	Type      string   `json:"type"`
	KeyPath   string   `json:"keyPath"`
	KeyPaths  []string `json:"keyPaths"`
	KeyData   []byte   `json:"keyData"` // base64 of PEM
	KeyDatas  [][]byte `json:"keyDatas"`
	Fulcio    any      `json:"fulcio"`
	PKI       any      `json:"pki"`
	RekorPath string   `json:"rekorPublicKeyPath"`
	RekorData string   `json:"rekorPublicKeyData"`

	RekorPaths []string `json:"rekorPublicKeyPaths"`
	RekorDatas []string `json:"rekorPublicKeyDatas"`

	Identity json.RawMessage `json:"signedIdentity"`
}

func parseSigned(b []byte) (requirement, error) {
	fail := func(err error) (requirement, error) { return requirement{}, fmt.Errorf("sigstoreSigned: %w", err) }
	var in signedJSON
	if err := strict(b, &in); err != nil {
		return fail(err)
	}
	q := requirement{signed: true, identity: identity{kind: "matchRepoDigestOrExact"}}
	if len(in.Identity) > 0 {
		i, err := parseIdentity(in.Identity)
		if err != nil {
			return fail(err)
		}
		q.identity = i
	}
	switch {
	case in.Fulcio != nil || in.PKI != nil:
		q.refuses = "sigstoreSigned with fulcio or pki is not supported: sealer checks signatures of keys"
		return q, nil
	case in.RekorPath != "" || in.RekorData != "" || in.RekorPaths != nil || in.RekorDatas != nil:
		q.refuses = "sigstoreSigned with rekorPublicKey… is not supported: sealer asks no transparency log"
		return q, nil
	}
	given := 0
	for _, is := range []bool{in.KeyPath != "", in.KeyPaths != nil, in.KeyData != nil, in.KeyDatas != nil} {
		if is {
			given++
		}
	}
	if in.KeyPath != "" {
		in.KeyPaths = []string{in.KeyPath}
	}
	if in.KeyData != nil {
		in.KeyDatas = [][]byte{in.KeyData}
	}
	if given != 1 || len(in.KeyPaths)+len(in.KeyDatas) == 0 {
		return fail(errors.New("want one of keyPath, keyPaths, keyData and keyDatas"))
	}
	q.keys = sync.OnceValues(func() ([]*sign.Verifier, error) { return readKeys(in.KeyPaths, in.KeyDatas) })
	return q, nil
}

// readKeys reads the keys of files and those in the policy itself.
func readKeys(files []string, contents [][]byte) ([]*sign.Verifier, error) {
	var out []*sign.Verifier
	for _, f := range files {
		k, err := sign.LoadVerifier(f)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	for _, b := range contents {
		k, err := sign.ParseVerifier(b)
		if err != nil {
			return nil, fmt.Errorf("keyData: %w", err)
		}
		out = append(out, k)
	}
	return out, nil
}

func parseIdentity(b []byte) (identity, error) {
	var in struct {
		Type         string `json:"type"`
		Reference    string `json:"dockerReference"`
		Repository   string `json:"dockerRepository"`
		Prefix       string `json:"prefix"`
		SignedPrefix string `json:"signedPrefix"`
	}
	if err := strict(b, &in); err != nil {
		return identity{}, fmt.Errorf("signedIdentity: %w", err)
	}
	i := identity{kind: in.Type, name: in.Reference + in.Repository, prefix: in.Prefix, signedPrefix: in.SignedPrefix}
	for _, f := range []struct{ field, value, of string }{
		{"dockerReference", in.Reference, "exactReference"}, {"dockerRepository", in.Repository, "exactRepository"},
		{"prefix", in.Prefix, "remapIdentity"}, {"signedPrefix", in.SignedPrefix, "remapIdentity"},
	} {
		if f.value != "" && f.of != in.Type {
			return i, fmt.Errorf("signedIdentity: %s does not belong to %s", f.field, in.Type)
		}
	}
	return i, i.check()
}

// strict decodes b and refuses unknown keys and anything behind it.
func strict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		var corrupt base64.CorruptInputError
		if errors.As(err, &corrupt) {
			return fmt.Errorf("keyData: %w", err)
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something behind its end")
	}
	return nil
}

// unique refuses an object in which a key stands twice: readers differ on the one
// that counts.
func unique(d *json.Decoder) error {
	var keys []map[string]bool // of each open object; nil for an array
	isKey := false
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		inObject := len(keys) > 0 && keys[len(keys)-1] != nil
		switch t {
		case json.Delim('{'):
			keys, isKey = append(keys, map[string]bool{}), true
			continue
		case json.Delim('['):
			keys, isKey = append(keys, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			keys = keys[:len(keys)-1]
			isKey = len(keys) > 0 && keys[len(keys)-1] != nil
			continue
		}
		if !inObject {
			continue
		}
		if k, ok := t.(string); ok && isKey {
			if keys[len(keys)-1][k] {
				return fmt.Errorf("the key %q stands twice", k)
			}
			keys[len(keys)-1][k] = true
		}
		isKey = !isKey
	}
}
