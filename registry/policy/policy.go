package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/sign"
)

// ErrRefused is wrapped by errors about images that a policy does not accept.
var ErrRefused = errors.New("the policy does not accept it")

// System is the policy of the machine; see Find.
const System = "/etc/containers/policy.json"

// maxFile bounds the bytes of a policy.
const maxFile = 4 << 20

// A Policy says which images may be taken from registries. It is safe for concurrent
// use.
type Policy struct {
	file   string
	byName map[string][]requirement // by scope; "" is for all registries
	others []requirement            // the default
}

// Find returns the policy that podman and skopeo use: the user's, else the
// machine's; "" where there is neither.
func Find() (string, error) {
	files := []string{System}
	if home, err := os.UserHomeDir(); err == nil {
		files = append([]string{filepath.Join(home, ".config/containers/policy.json")}, files...)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			return f, nil
		} else if !os.IsNotExist(err) {
			return "", fmt.Errorf("find the policy: %w", err)
		}
	}
	return "", nil
}

// Load reads a policy. Keys are read when an image asks for them.
func Load(file string) (*Policy, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if fi.Size() > maxFile {
		return nil, fmt.Errorf("read policy: %s: %d bytes are too many", file, fi.Size())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	p, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("read policy: %s: %w", file, err)
	}
	p.file = file
	return p, nil
}

// Allow judges an image by its name alone, before its registry is asked. signed says
// that Judge must see its signatures, too. The error wraps ErrRefused.
func (p *Policy) Allow(r ref.Reference) (signed bool, err error) {
	list, scope := p.requirements(r)
	for _, q := range list {
		if q.refuses != "" {
			return false, p.refused(scope, errors.New(q.refuses))
		}
		signed = signed || q.signed
	}
	return signed, nil
}

// Judge returns nil when the signatures of the manifest or index d satisfy every
// requirement for r. The error wraps ErrRefused, and sign.ErrSignature where
// signatures are missing or wrong.
func (p *Policy) Judge(r ref.Reference, d digest.Digest, signatures []sign.Signature) error {
	if _, err := p.Allow(r); err != nil {
		return err
	}
	list, scope := p.requirements(r)
	for _, q := range list {
		if !q.signed {
			continue
		}
		if err := q.judge(r, d, signatures); err != nil {
			return p.refused(scope, err)
		}
	}
	return nil
}

func (p *Policy) refused(scope string, err error) error {
	return fmt.Errorf("%w: %s, %s: %w", ErrRefused, p.file, scope, err)
}

// judge looks for a signature by one of the requirement's keys, of d, under a name
// that the requirement takes for r.
func (q *requirement) judge(r ref.Reference, d digest.Digest, signatures []sign.Signature) error {
	keys, err := q.keys()
	if err != nil {
		return err
	}
	if len(signatures) == 0 {
		return fmt.Errorf("%w: %s has none of %s", sign.ErrSignature, r.Name(), d)
	}
	var last, name error
	for _, s := range signatures {
		for _, k := range keys {
			if err := k.Check(s, d); err != nil {
				last = err
				continue
			}
			if name = q.identity.match(r, sign.Identity(s)); name == nil {
				return nil
			}
			name = fmt.Errorf("%w: %w", sign.ErrSignature, name)
		}
	}
	if name != nil { // a right key, which tells more than a wrong one
		return name
	}
	return last
}
