package policy

import (
	"fmt"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// requirements returns the requirements for r and the words for where they stand:
// those of the most specific scope, else those of all registries, else the default.
func (p *Policy) requirements(r ref.Reference) ([]requirement, string) {
	for _, s := range append(Scopes(r), "") {
		if list, ok := p.byName[s]; ok {
			return list, fmt.Sprintf("transports.docker[%q]", s)
		}
	}
	return p.others, "default"
}

// Scopes returns the scopes that r falls under, the most specific first: the
// reference itself, its repository, the paths above it, its registry, and the
// registry's domains as *.example.com. Source: containers-policy.json(5), "docker:".
//
// A reference with a tag and a digest falls under both forms: it is fetched by its
// digest, and the rule for its tag must not be evaded by adding one.
func Scopes(r ref.Reference) []string {
	var out []string
	if r.Digest != "" {
		out = append(out, r.Name()+"@"+r.Digest.String())
	}
	if r.Tag != "" {
		out = append(out, r.Name()+":"+r.Tag)
	}
	name := r.Name()
	for {
		out = append(out, name)
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	host, _, _ := strings.Cut(name, ":")
	for {
		_, domain, ok := strings.Cut(host, ".")
		if !ok {
			return out
		}
		out = append(out, "*."+domain)
		host = domain
	}
}
