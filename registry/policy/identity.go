package policy

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"

	"github.com/clusterimage/sealer/registry/ref"
)

// An identity says which name a signature must give to an image: signedIdentity.
type identity struct {
	kind                 string
	name                 string // of exactReference, exactRepository
	prefix, signedPrefix string // of remapIdentity
}

// match returns nil when a signature that names signed is one of r. A payload of
// cosign names a repository without a tag, which only matchRepository,
// exactRepository and a reference with a digest take.
func (i identity) match(r ref.Reference, signed string) error {
	s, err := reference.ParseNormalizedNamed(signed)
	if err != nil {
		return fmt.Errorf("it is of %.200q, which is no name: %w", signed, err)
	}
	want := r.Name() + r.Suffix()
	if r.Digest != "" { // the digest decides the content, whatever the tag is
		want = r.Name() + "@" + r.Digest.String()
	}
	ok := false
	switch i.kind {
	case "matchExact":
		ok = !reference.IsNameOnly(s) && s.String() == want
	case "matchRepository":
		want = r.Name()
		ok = s.Name() == want
	case "exactReference":
		want = i.name
		ok = !reference.IsNameOnly(s) && s.String() == want
	case "exactRepository":
		want = i.name
		ok = s.Name() == want
	case "remapIdentity":
		want = i.remap(want)
		ok = repositoryOrExact(s, want)
	default:
		ok = repositoryOrExact(s, want)
	}
	if !ok {
		return fmt.Errorf("it is of %s, and %s asks for %s", s, i.kind, want)
	}
	return nil
}

// repositoryOrExact is matchRepoDigestOrExact: a digest is compared by the signature
// itself, so its repository is enough; a tag must be the signed one.
func repositoryOrExact(signed reference.Named, want string) bool {
	if name, _, ok := strings.Cut(want, "@"); ok {
		return signed.Name() == name
	}
	return !reference.IsNameOnly(signed) && signed.String() == want
}

// remap replaces the prefix of name: whole elements of the path.
func (i identity) remap(name string) string {
	rest, ok := strings.CutPrefix(name, i.prefix)
	if !ok || rest != "" && !strings.ContainsRune("/:@", rune(rest[0])) {
		return name
	}
	return i.signedPrefix + rest
}

// check refuses an identity that cannot match, and normalises its names.
func (i *identity) check() (err error) {
	switch i.kind {
	case "matchExact", "matchRepoDigestOrExact", "matchRepository":
		return nil
	case "exactReference", "exactRepository":
		named, err := reference.ParseNormalizedNamed(i.name)
		if err != nil {
			return fmt.Errorf("signedIdentity: %q: %w", i.name, err)
		}
		if reference.IsNameOnly(named) != (i.kind == "exactRepository") {
			return fmt.Errorf("signedIdentity: %q: %s asks for a name %s", i.name, i.kind,
				map[bool]string{true: "without a tag or digest", false: "with a tag or digest"}[i.kind == "exactRepository"])
		}
		i.name = named.String()
		return nil
	case "remapIdentity":
		for _, p := range []string{i.prefix, i.signedPrefix} {
			if p == "" || strings.HasSuffix(p, "/") || strings.Contains(p, "@") {
				return fmt.Errorf("signedIdentity: prefix %q: want a host, or a host and path", p)
			}
		}
		return nil
	}
	return fmt.Errorf("signedIdentity: unknown type %q", i.kind)
}
