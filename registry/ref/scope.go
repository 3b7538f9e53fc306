package ref

import (
	"fmt"
	"strings"
)

// Scopes returns the scopes that r falls under, the most specific first: the
// reference itself, its repository, the paths above it, its registry, and the
// registry's domains as *.example.com, which match any host below. Source:
// containers-policy.json(5), "docker:".
//
// A reference with a tag and a digest falls under both forms: it is fetched by its
// digest, and the rule for its tag must not be evaded by adding one.
func (r Reference) Scopes() []string {
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

// CheckScope returns nil when some reference can fall under s; see Scopes.
func CheckScope(s string) error {
	host, path, _ := strings.Cut(s, "/")
	want := fmt.Errorf("%q: want HOST[:PORT], HOST/PATH, HOST/PATH:TAG or *.DOMAIN", s)
	if domain, ok := strings.CutPrefix(s, "*."); ok {
		if path != "" || strings.HasSuffix(s, "/") || CheckHost("x."+domain) != nil || strings.Contains(domain, ":") {
			return want
		}
		return nil
	}
	if CheckHost(host) != nil {
		return want
	}
	if s == host {
		return nil
	}
	below := "" // a namespace of docker.io has one element, and a repository there two
	if !strings.ContainsAny(path, ":@") {
		below = "/x"
	}
	r, err := Parse(s + below)
	if err != nil || r.Registry != host || r.Name()+r.Suffix() != s+below && r.Name() != s+below {
		return want
	}
	return nil
}
