package platform_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
)

func TestParseList(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"":                             nil,
		"linux/amd64":                  {"linux/amd64"},
		"linux/x86_64, amd64":          {"linux/amd64"},
		"arm64":                        {"linux/arm64"},
		"linux/arm64/v8,linux/aarch64": {"linux/arm64"},
		"linux/arm,linux/arm/v6":       {"linux/arm/v7", "linux/arm/v6"},
	} {
		got, err := platform.ParseList(in)
		if err != nil {
			t.Errorf("ParseList(%q): %v", in, err)
		}
		var names []string
		for _, p := range got {
			names = append(names, platform.String(p))
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("ParseList(%q) (-want +got):\n%s", in, diff)
		}
	}
	for _, in := range []string{"linux/", "linux/amd64/v1/x", "a b/c", "linux", "all", "linux/amd46", "lunix/amd64", "linux/linux", "linux/windows"} {
		if got, err := platform.ParseList(in); err == nil {
			t.Errorf("ParseList(%q) = %v, want an error", in, got)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	index := func(names ...string) (out []ocispec.Descriptor) {
		for _, n := range names {
			if n == "-" {
				out = append(out, ocispec.Descriptor{})
				continue
			}
			if n == "unknown" {
				out = append(out, ocispec.Descriptor{Platform: &ocispec.Platform{OS: "unknown", Architecture: "unknown"}})
				continue
			}
			p, err := platform.Parse(n)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ocispec.Descriptor{Platform: &p})
		}
		return out
	}
	for _, tc := range []struct {
		want string
		have []ocispec.Descriptor
		at   int
	}{
		{"linux/amd64", index("linux/arm64", "linux/amd64"), 1},
		{"linux/amd64", index("-", "unknown", "windows/amd64"), -1},
		{"linux/arm/v7", index("linux/arm/v5", "linux/arm/v6", "linux/arm64"), 1},
		{"linux/arm/v7", index("linux/arm/v6", "linux/arm/v7"), 1},
		{"linux/arm/v6", index("linux/arm/v7"), -1},
		{"linux/arm64", index("linux/amd64", "linux/arm64/v8"), 1},
		{"linux/arm/v7", index("linux/arm/v7", "linux/arm/v6"), 0},
		{"linux/amd64", index("linux/amd64", "linux/amd64"), 0}, // of equals the first
		{"linux/amd64", nil, -1},
	} {
		p, err := platform.Parse(tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := platform.Choose(p, tc.have); got != tc.at {
			t.Errorf("Choose(%s) = %d, want %d", tc.want, got, tc.at)
		}
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want ocispec.Platform }{
		{ocispec.Platform{OS: "Linux", Architecture: "x86_64"}, ocispec.Platform{OS: "linux", Architecture: "amd64"}},
		{ocispec.Platform{OS: "linux", Architecture: "amd64", Variant: "v1"}, ocispec.Platform{OS: "linux", Architecture: "amd64"}},
		{ocispec.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}, ocispec.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}},
		{ocispec.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, ocispec.Platform{OS: "linux", Architecture: "arm64"}},
		{ocispec.Platform{OS: "linux", Architecture: "arm64", Variant: "v9"}, ocispec.Platform{OS: "linux", Architecture: "arm64", Variant: "v9"}},
		{ocispec.Platform{OS: "linux", Architecture: "arm"}, ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
		{ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v8"}, ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v8"}},
		{ocispec.Platform{OS: "linux", Architecture: "riscv64", Variant: "v1"}, ocispec.Platform{OS: "linux", Architecture: "riscv64", Variant: "v1"}},
		{ocispec.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10", OSFeatures: []string{"win32k"}}, ocispec.Platform{OS: "windows", Architecture: "amd64"}},
	} {
		if diff := cmp.Diff(tc.want, platform.Normalize(tc.in)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.in, diff)
		}
	}
	if p := platform.Default(); p.OS != "linux" || p.Architecture == "" || platform.Normalize(p).Architecture != p.Architecture {
		t.Errorf("Default is %+v", p)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want, have string
		ok         bool
	}{
		{"linux/amd64", "linux/amd64", true},
		{"linux/amd64", "linux/arm64", false},
		{"linux/amd64", "windows/amd64", false},
		{"linux/arm/v7", "linux/arm/v6", true},
		{"linux/arm/v6", "linux/arm/v7", false},
	} {
		want, err := platform.Parse(tc.want)
		if err != nil {
			t.Fatal(err)
		}
		have, err := platform.Parse(tc.have)
		if err != nil {
			t.Fatal(err)
		}
		if got := platform.Match(want, have); got != tc.ok {
			t.Errorf("an image for %s runs on %s: %v, want %v", tc.have, tc.want, got, tc.ok)
		}
	}
}

func TestParseSaysWhy(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "lunix/amd64", "linux/amd46"} {
		if p, err := platform.Parse(in); err == nil || !strings.Contains(err.Error(), `platform "`+in+`": want os/arch[/variant]`) {
			t.Errorf("Parse(%q) = %v, %v", in, p, err)
		}
	}
}

func TestOfConfig(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"os":"linux","architecture":"arm64","variant":"v8"}`: "linux/arm64",
		`{"os":"linux"}`:           "",
		`{"architecture":"amd64"}`: "",
		`{}`:                       "",
	} {
		p, ok, err := platform.OfConfig([]byte(config))
		if err != nil || ok != (want != "") || ok && platform.String(p) != want {
			t.Errorf("OfConfig(%s) = %v, %v, %v, want %q", config, p, ok, err, want)
		}
	}
	if p, ok, err := platform.OfConfig([]byte("[")); err == nil || ok {
		t.Errorf("a broken config: %v, %v, %v", p, ok, err)
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	const index, manifest, config = 1, 2, 3
	for mediaType, want := range map[string]int{
		"application/vnd.oci.image.index.v1+json":                   index,
		"application/vnd.docker.distribution.manifest.list.v2+json": index,
		"application/vnd.oci.image.manifest.v1+json":                manifest,
		"application/vnd.docker.distribution.manifest.v2+json":      manifest,
		"application/vnd.oci.image.config.v1+json":                  config,
		"application/vnd.docker.container.image.v1+json":            config,
		"application/vnd.docker.distribution.manifest.v1+json":      0,
		"": 0,
	} {
		got := map[int]bool{index: platform.IsIndex(mediaType), manifest: platform.IsManifest(mediaType), config: platform.IsConfig(mediaType)}
		for kind, is := range got {
			if is != (kind == want) {
				t.Errorf("%q: index %v, manifest %v, config %v", mediaType, got[index], got[manifest], got[config])
				break
			}
		}
	}
}
