package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

// TestFind names images in every way, beside one without a name.
func TestFind(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	old := write(t, s, "linux/amd64", addLayer(t, s, file("a", "old")))
	if err := s.Commit(t.Context(), nil, old); err != nil {
		t.Fatal(err)
	}
	now := commit(t, s, "team/app:v1", "new")
	other := commit(t, s, "team/app:v2", "other")
	for nameOrID, want := range map[string]ocispec.Descriptor{
		"team/app:v1":                                 now,
		"docker.io/team/app:v2":                       other,
		"team/app@" + now.Digest.String():             now,
		"team/app:v2@" + other.Digest.String():        other,
		old.Digest.String():                           old,
		old.Digest.Encoded()[:12]:                     old,
		"sha256:" + other.Digest.Encoded()[:12]:       other,
		"docker.io/team/app@" + other.Digest.String(): other,
	} {
		img, err := s.Image(t.Context(), nameOrID, nil)
		if err != nil || img.Descriptor.Digest != want.Digest {
			t.Errorf("%s: %v, %v; want %s", nameOrID, img, err, want.Digest)
		}
	}
	for _, name := range []string{
		"team/app:v3", "team/app:v1@" + other.Digest.String(), "team/other@" + now.Digest.String(), "team/app@" + old.Digest.String(), "ffffffffffff",
	} {
		_, err := s.Image(t.Context(), name, nil)
		var unknown *store.UnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]string{"docker.io/team/app:v1", "docker.io/team/app:v2"}, unknown.Known); diff != "" {
			t.Errorf("%s: known names (-want +got):\n%s", name, diff)
		}
	}
	// Those with names first, each once.
	if err := s.Tag(t.Context(), "team/app:v1", names(t, "again:v1")[0]); err != nil {
		t.Fatal(err)
	}
	all, err := s.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, img := range all {
		got = append(got, strings.Join(img.Names, " "))
	}
	if len(got) != 3 || got[2] != "" || got[0] == "" || got[1] == "" {
		t.Errorf("images %q", got)
	}
}

// TestImageForAPlatform asks for platforms that an image has and has not, with and
// without an index.
func TestImageForAPlatform(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	here := platform.Default()
	var all []ocispec.Descriptor
	for _, p := range []string{"linux/s390x", "linux/ppc64le", platform.String(here)} {
		all = append(all, write(t, s, p, addLayer(t, s, file("a", p))))
	}
	for name, manifests := range map[string][]ocispec.Descriptor{"both": all, "elsewhere": all[:2], "single": all[:1]} {
		idx, err := s.WriteIndex(t.Context(), manifests, nil)
		if err == nil {
			err = s.Commit(t.Context(), names(t, name), idx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(t.Context(), names(t, "plain"), all[0]); err != nil {
		t.Fatal(err)
	}
	s390x, arm := ocispec.Platform{OS: "linux", Architecture: "s390x"}, ocispec.Platform{OS: "linux", Architecture: "riscv64"}
	for _, tc := range []struct {
		name string
		p    *ocispec.Platform
		want int    // of all
		err  string // of an image that is not there for p
	}{
		{"both", nil, 2, ""}, {"both", &s390x, 0, ""}, {"both", &arm, 0, "it is here for linux/s390x, linux/ppc64le, " + platform.String(here)},
		{"elsewhere", nil, 0, ""}, {"elsewhere", &here, 0, "it is here for linux/s390x, linux/ppc64le"},
		{"single", nil, 0, ""}, {"single", &s390x, 0, ""}, {"single", &arm, 0, "it is here for linux/s390x"},
		{"plain", nil, 0, ""}, {"plain", &s390x, 0, ""}, {"plain", &arm, 0, "it is here for linux/s390x"},
	} {
		img, err := s.Image(t.Context(), tc.name, tc.p)
		switch {
		case tc.err != "":
			if !errors.Is(err, store.ErrNotFound) || !strings.HasSuffix(err.Error(), tc.err) {
				t.Errorf("%s for %v: %v, want %s", tc.name, tc.p, err, tc.err)
			}
		case err != nil || img.ManifestDescriptor.Digest != all[tc.want].Digest:
			t.Errorf("%s for %v: %+v, %v", tc.name, tc.p, img, err)
		}
	}
}
