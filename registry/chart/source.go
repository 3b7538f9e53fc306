package chart

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// A Source is where a chart is fetched from. It is comparable.
type Source struct {
	// Repository is oci://REGISTRY/REPOSITORY, the chart's own, or the http(s)
	// URL of a chart repository, below which index.yaml lies.
	Repository string
	Name       string // of the chart
	// Version is a version, a range as Helm takes it, sha256:HEX of a chart in a
	// registry, or "" for the newest that is no prerelease.
	Version string
}

// ErrInvalid is wrapped by the errors about a text that is no Source.
var ErrInvalid = errors.New("no source of a chart")

const (
	ociScheme  = "oci://"
	repoScheme = "repo+"
)

var chartName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// Parse reads the form of a Kubefile: oci://REGISTRY/REPOSITORY[:VERSION] or
// repo+https://HOST/PATH#NAME[@VERSION]. A version may be a range; %20 stands
// for a space in it.
func Parse(s string) (Source, error) {
	var out Source
	switch {
	case strings.HasPrefix(s, ociScheme):
		rest := strings.TrimPrefix(s, ociScheme)
		slash := strings.LastIndex(rest, "/")
		if i := strings.Index(rest, "@sha256:"); i >= 0 {
			out = Source{Repository: ociScheme + rest[:i], Version: rest[i+1:]}
		} else if i := strings.Index(rest[slash+1:], ":"); i >= 0 {
			out = Source{Repository: ociScheme + rest[:slash+1+i], Version: rest[slash+2+i:]}
		} else {
			out = Source{Repository: s}
		}
		out.Name = path.Base(out.Repository)
	case strings.HasPrefix(s, repoScheme):
		repository, name, ok := strings.Cut(strings.TrimPrefix(s, repoScheme), "#")
		if !ok {
			return out, fmt.Errorf("%w: want repo+https://HOST/PATH#NAME@VERSION", ErrInvalid)
		}
		out.Repository = repository
		out.Name, out.Version, _ = strings.Cut(name, "@")
	default:
		return out, fmt.Errorf("%w: want oci://REGISTRY/REPOSITORY:VERSION or repo+https://HOST/PATH#NAME@VERSION", ErrInvalid)
	}
	out.Version = strings.ReplaceAll(out.Version, "%20", " ")
	out.Repository = strings.TrimSuffix(out.Repository, "/")
	return out, out.Check()
}

// Check returns nil when s can be asked for. The error does not name s.
func (s Source) Check() error {
	bad := func(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }
	if !chartName.MatchString(s.Name) {
		return bad(fmt.Sprintf("%q is no name of a chart", s.Name))
	}
	if strings.ContainsAny(s.Version, "\t\r\n#%\x00") || len(s.Version) > 200 {
		return bad("its version is none")
	}
	if s.IsOCI() {
		if _, err := s.reference(); err != nil {
			return bad(err.Error())
		}
		return nil
	}
	u, err := url.Parse(s.Repository)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return bad("the repository is no http(s) URL")
	case u.User != nil:
		return bad("a password does not belong into it; sealer login " + u.Host + " keeps one")
	case u.RawQuery != "" || u.Fragment != "":
		return bad("the repository's URL has a query or a fragment")
	}
	return nil
}

// IsOCI reports whether the chart is in a registry.
func (s Source) IsOCI() bool { return strings.HasPrefix(s.Repository, ociScheme) }

// reference is the repository in a registry, with the tag latest.
func (s Source) reference() (ref.Reference, error) {
	name := strings.TrimPrefix(s.Repository, ociScheme)
	host, _, ok := strings.Cut(name, "/")
	if !ok || ref.CheckHost(host) != nil || strings.ContainsAny(name, "@ ") {
		return ref.Reference{}, fmt.Errorf("want oci://REGISTRY/REPOSITORY")
	}
	return ref.Parse(name + ":latest")
}

// String is the form that Parse reads, without a password.
func (s Source) String() string {
	version := strings.ReplaceAll(s.Version, " ", "%20")
	switch {
	case !s.IsOCI():
		at := ""
		if version != "" {
			at = "@" + version
		}
		repository := s.Repository
		if u, err := url.Parse(repository); err == nil {
			repository = u.Redacted()
		}
		return repoScheme + repository + "#" + s.Name + at
	case strings.HasPrefix(version, "sha256:"):
		return s.Repository + "@" + version
	case version != "":
		return s.Repository + ":" + version
	}
	return s.Repository
}
