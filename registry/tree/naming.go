package tree

import (
	"fmt"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// Naming is the rule that gives a mirrored image its repository in the private
// registry. The zero value means NamingPath.
type Naming string

const (
	// NamingPath drops the source registry: docker.io/library/nginx is
	// library/nginx, registry.k8s.io/pause is pause.
	NamingPath Naming = "path"
	// NamingFull keeps the source registry as the first segment:
	// docker.io/library/nginx. A path cannot contain a port: reg.example:8443/a
	// is reg.example-8443/a.
	NamingFull Naming = "full"
)

// ParseNaming reads "path" or "full"; "" is NamingPath.
func ParseNaming(s string) (Naming, error) {
	switch n := Naming(s); n {
	case "", NamingPath:
		return NamingPath, nil
	case NamingFull:
		return n, nil
	}
	return "", fmt.Errorf("registry naming %q: want path or full", s)
}

// Repository returns the repository of r in the private registry.
func (n Naming) Repository(r ref.Reference) string {
	if n == NamingFull {
		return HostSegment(r.Registry) + "/" + r.Repository
	}
	return r.Repository
}

// Target returns the reference by which the cluster asks the private registry for
// r. A reference to the private registry itself is returned unchanged.
func (n Naming) Target(private string, r ref.Reference) ref.Reference {
	if r.Registry == private {
		return r
	}
	return ref.Reference{Registry: private, Repository: n.Repository(r), Tag: r.Tag, Digest: r.Digest}
}

// HostSegment turns a registry's host[:port] into a path segment: lower case, and
// each run of characters that a repository cannot contain becomes one "-".
func HostSegment(host string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(host) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.':
			b.WriteRune(c)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-.")
}
