package ref

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

const (
	// DefaultRegistry is the registry of a reference that names none.
	DefaultRegistry = "docker.io"
	// DefaultTag is the tag of a reference that has neither tag nor digest.
	DefaultTag = "latest"
)

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("invalid image reference")

// A Reference names an image in a registry. It is comparable, and complete
// when it comes from Parse: Registry and Repository are set, and at least one
// of Tag and Digest.
type Reference struct {
	Registry   string        // host[:port], "docker.io" for Docker Hub
	Repository string        // path inside the registry: "library/nginx"
	Tag        string        // "" when the reference has only a digest
	Digest     digest.Digest // "" when the reference has only a tag
}

// Parse reads s and normalises it. White space around s is not tolerated.
// The error wraps ErrInvalid and says what is wrong with s.
func Parse(s string) (Reference, error) {
	named, err := reference.ParseDockerRef(s)
	if err != nil {
		return Reference{}, fmt.Errorf("%w %q: %s", ErrInvalid, s, reason(s, err))
	}
	// ParseDockerRef drops the tag where there is a digest; the tag is kept
	// here, since a mirrored image gets both links.
	full, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, fmt.Errorf("%w %q: %s", ErrInvalid, s, reason(s, err))
	}
	r := Reference{Registry: reference.Domain(named), Repository: reference.Path(named)}
	if t, ok := full.(reference.Tagged); ok {
		r.Tag = t.Tag()
	}
	if d, ok := full.(reference.Digested); ok {
		r.Digest = d.Digest()
	}
	if r.Tag == "" && r.Digest == "" {
		r.Tag = DefaultTag
	}
	return r, nil
}

// reason says in a user's words why s is no reference.
func reason(s string, err error) string {
	switch {
	case s == "":
		return "it is empty"
	case strings.ContainsAny(s, " \t\r\n"):
		return "it contains white space"
	case strings.Contains(s, "://"):
		return "it is a URL; drop the scheme"
	case errors.Is(err, reference.ErrNameContainsUppercase):
		return "the repository must be lowercase"
	case errors.Is(err, reference.ErrReferenceInvalidFormat):
		return "want [registry/]repository[:tag][@digest]"
	}
	return err.Error()
}

// Name returns registry/repository, without tag and digest.
func (r Reference) Name() string { return r.Registry + "/" + r.Repository }

// String returns the normalised form: registry/repository[:tag][@digest].
// Parse(r.String()) gives r again.
func (r Reference) String() string { return r.Name() + r.Suffix() }

// Suffix returns ":tag", "@digest" or ":tag@digest".
func (r Reference) Suffix() string {
	var b strings.Builder
	if r.Tag != "" {
		b.WriteString(":" + r.Tag)
	}
	if r.Digest != "" {
		b.WriteString("@" + r.Digest.String())
	}
	return b.String()
}

// Familiar returns the shortest form that users write: "nginx:1.25" for
// docker.io/library/nginx:1.25. The tag is never dropped.
func (r Reference) Familiar() string {
	name := r.Name()
	if r.Registry != DefaultRegistry {
		return name + r.Suffix()
	}
	first, rest, _ := strings.Cut(r.Repository, "/")
	switch {
	case first == "library" && !strings.Contains(rest, "/"):
		name = rest
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = r.Repository // the first segment cannot be taken for a host
	}
	return name + r.Suffix()
}
