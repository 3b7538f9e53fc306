package platform_test

import (
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
