package sbom

import (
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

// ociPURL returns the package URL of an image: pkg:oci/NAME@DIGEST with the
// repository and the tag as qualifiers. Source: the type "oci" of the purl
// specification. r may be zero where only the digest is known.
func ociPURL(r ref.Reference, d digest.Digest) string {
	name, qualifiers := "image", ""
	if r.Repository != "" {
		name = strings.ToLower(path.Base(r.Repository))
		qualifiers = "?repository_url=" + escapePURL(r.Registry+"/"+r.Repository)
		if r.Tag != "" {
			qualifiers += "&tag=" + escapePURL(r.Tag)
		}
	}
	version := ""
	if d != "" {
		version = "@" + strings.ReplaceAll(d.String(), ":", "%3A")
	}
	return "pkg:oci/" + escapePURL(name) + version + qualifiers
}

// helmPURL returns the package URL of a chart.
func helmPURL(name, version string) string {
	out := "pkg:helm/" + escapePURL(name)
	if version != "" {
		out += "@" + escapePURL(version)
	}
	return out
}

// escapePURL percent-encodes all that stands for something else in a package URL.
func escapePURL(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
