package kyverno

import (
	"fmt"
	"regexp"
)

// DefaultVersion is the version of Kyverno that a BaseImage installs by default.
const DefaultVersion = "v1.19.1"

var versionForm = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?)$`)

// ParseVersion reads a version of Kyverno, with or without its v, and returns it
// with the v; "" gives "".
func ParseVersion(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	m := versionForm.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("version of Kyverno %q: want one such as %s", s, DefaultVersion)
	}
	return "v" + m[1], nil
}

// A Release is the location of an install manifest of Kyverno.
type Release struct {
	URL    string
	SHA256 string // hex; "" if unknown
}

// ReleaseOf returns the location of a version's install manifest. The versions
// that the redirect is tested with are pinned by checksum and come from the
// tagged source tree, whose images have the tag latest; see Context.Version.
func ReleaseOf(version string) Release {
	pinned := map[string]string{
		"v1.13.6": "61ca2bab816c033a50c41f6291d7cecd26372a3c7626a008cf89be4ed74e1e33",
		"v1.19.1": "9210d65d28bce9eb969dd10c158153d7d675662f7550275b125c8693b068bc2e",
	}
	if sum, ok := pinned[version]; ok {
		return Release{"https://raw.githubusercontent.com/kyverno/kyverno/" + version + "/config/install-latest-testing.yaml", sum}
	}
	return Release{URL: "https://github.com/kyverno/kyverno/releases/download/" + version + "/install.yaml"}
}
