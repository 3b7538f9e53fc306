package ref

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

const (
	// DockerHub is the registry of a reference that names none.
	DockerHub = "docker.io"
	// DefaultPrivate is the private registry that a cluster pulls from when the
	// user names none.
	DefaultPrivate = "sea.hub:5000"
	// DefaultTag is the tag of a reference that has neither tag nor digest.
	DefaultTag = "latest"
)

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
// The error is an *Error.
func Parse(s string) (Reference, error) {
	r, reason := parse(s)
	if reason != "" {
		return Reference{}, &Error{Text: s, Reason: reason}
	}
	return r, nil
}

// parse returns the reference that s names, or the reason why s names none.
func parse(s string) (r Reference, reason string) {
	named, err := reference.ParseDockerRef(s)
	if err != nil {
		return r, explain(s, err)
	}
	// ParseDockerRef drops the tag of a reference with a digest. The tag is kept
	// here, because a mirrored image gets both links.
	full, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return r, explain(s, err)
	}
	r = Reference{Registry: reference.Domain(named), Repository: reference.Path(named)}
	// The library takes "a.b_c/d" for a path, because "a.b_c" is no host name,
	// and leaves the registry empty: such a Reference could not be printed.
	if r.Registry == "" {
		host, _, _ := strings.Cut(r.Repository, "/")
		return r, fmt.Sprintf("%q is neither a host name nor a repository of Docker Hub", host)
	}
	if t, ok := full.(reference.Tagged); ok {
		r.Tag = t.Tag()
	}
	if d, ok := full.(reference.Digested); ok {
		r.Digest = d.Digest()
	}
	if r.Tag == "" && r.Digest == "" {
		r.Tag = DefaultTag
	}
	return r, ""
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
	if r.Registry != DockerHub {
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
