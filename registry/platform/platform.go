// Package platform parses, normalises, prints and matches platforms:
// os/architecture[/variant], as in "linux/amd64" or "linux/arm64/v8".
//
// A platform is an OCI ocispec.Platform. The rules (aliases such as x86_64 for
// amd64, arm64 standing for arm64/v8, arm for arm/v7) are those of
// github.com/containerd/platforms, which containerd uses to choose an image when
// the cluster pulls.
package platform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Parse reads "os/arch[/variant]" or a bare architecture ("arm64", which means
// linux/arm64), and normalises it. An unknown system or architecture is an error,
// because it is probably misspelt.
func Parse(s string) (ocispec.Platform, error) {
	p := s
	if p != "" && !strings.Contains(p, "/") {
		p = "linux/" + p
	}
	got, err := platforms.Parse(p)
	if err == nil && !known(got) {
		err = errors.New("its system or its architecture is unknown")
	}
	if err != nil {
		return ocispec.Platform{}, fmt.Errorf("platform %q: want os/arch[/variant], such as linux/amd64 or linux/arm64: %w", s, err)
	}
	return Normalize(got), nil
}

// known reports whether both the system and the architecture of p are known.
// containerd's parser checks only a word that stands alone.
func known(p ocispec.Platform) bool {
	system, err := platforms.Parse(p.OS)
	architecture, archErr := platforms.Parse(p.Architecture)
	return err == nil && archErr == nil && system.OS == p.OS && architecture.Architecture == p.Architecture
}

// ParseList reads platforms separated by commas, drops repetitions and keeps
// the order. An empty string gives an empty list.
func ParseList(s string) ([]ocispec.Platform, error) {
	var out []ocispec.Platform
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := Parse(part)
		if err != nil {
			return nil, err
		}
		if !seen[String(p)] {
			seen[String(p)] = true
			out = append(out, p)
		}
	}
	return out, nil
}

// Default returns the platform that an image is built for when the user names
// none: Linux on this machine's architecture.
func Default() ocispec.Platform {
	p := platforms.DefaultSpec()
	return Normalize(ocispec.Platform{OS: "linux", Architecture: p.Architecture, Variant: p.Variant})
}

// Normalize replaces aliases by the canonical names and drops redundant parts:
// the default variants of arm64 (v8) and amd64 (v1), OS version and features.
func Normalize(p ocispec.Platform) ocispec.Platform {
	n := platforms.Normalize(ocispec.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant})
	if n.Architecture == "arm64" && n.Variant == "v8" || n.Architecture == "amd64" && n.Variant == "v1" {
		n.Variant = ""
	}
	return ocispec.Platform{OS: n.OS, Architecture: n.Architecture, Variant: n.Variant}
}

// String returns os/arch[/variant].
func String(p ocispec.Platform) string { return platforms.Format(Normalize(p)) }

// Match reports whether an image for the platform have runs on a machine of the
// platform want, as containerd decides: an exact match, or a lower variant of the
// same architecture (arm/v6 on arm/v7).
func Match(want, have ocispec.Platform) bool {
	return platforms.Only(want).Match(have)
}

// Choose returns the index of the best entry of an image index for want, or -1.
// Entries without a platform and attestation manifests (unknown/unknown) are
// never chosen. Of equal entries the first is chosen, as containerd does.
func Choose(want ocispec.Platform, manifests []ocispec.Descriptor) int {
	m := platforms.Only(want)
	best := -1
	for i, d := range manifests {
		if d.Platform == nil || !m.Match(*d.Platform) {
			continue
		}
		if best < 0 || m.Less(*d.Platform, *manifests[best].Platform) {
			best = i
		}
	}
	return best
}
