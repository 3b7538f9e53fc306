package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

func TestNaming(t *testing.T) {
	t.Parallel()
	const d = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// The table of DESIGN.md section 9.
	for _, tc := range []struct{ in, path, full string }{
		{"nginx", "sea.hub:5000/library/nginx:latest", "sea.hub:5000/docker.io/library/nginx:latest"},
		{"quay.io/a/b:v1", "sea.hub:5000/a/b:v1", "sea.hub:5000/quay.io/a/b:v1"},
		{"nginx:1.25" + d, "sea.hub:5000/library/nginx:1.25" + d, "sea.hub:5000/docker.io/library/nginx:1.25" + d},
		{"reg.example:8443/a/b:v2", "sea.hub:5000/a/b:v2", "sea.hub:5000/reg.example-8443/a/b:v2"},
		{"sea.hub:5000/x/y:1", "sea.hub:5000/x/y:1", "sea.hub:5000/x/y:1"},
		{"REG.example/a", "sea.hub:5000/a:latest", "sea.hub:5000/reg.example/a:latest"},
		{"[::1]:5000/a", "sea.hub:5000/a:latest", "sea.hub:5000/1-5000/a:latest"},
	} {
		r, err := ref.Parse(tc.in)
		if err != nil {
			t.Fatal(err)
		}
		for naming, want := range map[tree.Naming]string{tree.NamingPath: tc.path, "": tc.path, tree.NamingFull: tc.full} {
			if got := naming.Target(ref.DefaultPrivate, r).String(); got != want {
				t.Errorf("%q.Target(%s) = %s, want %s", naming, tc.in, got, want)
			}
		}
	}
}

func sample() *tree.Document {
	a, b, c := digest.FromString("a"), digest.FromString("b"), digest.FromString("c")
	return &tree.Document{
		Repositories: []tree.Repository{
			{Name: "z/z", Revisions: []tree.Revision{{Digest: b, MediaType: "m", Size: 1}}},
			{
				Name:      "library/nginx",
				Tags:      []tree.Tag{{Name: "latest", Digest: a, Sources: []ref.Reference{{Registry: "docker.io", Repository: "library/nginx", Tag: "latest"}}}},
				Revisions: []tree.Revision{{Digest: b, MediaType: "m", Size: 1}, {Digest: a, MediaType: "m", Size: 1}},
				Layers:    []digest.Digest{c, c},
			},
		},
		Blobs: []tree.Blob{{a, 1}, {b, 1}, {c, 1}},
	}
}

func TestEncodeIsCanonical(t *testing.T) {
	t.Parallel()
	one, id, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := tree.Parse(one)
	if err != nil {
		t.Fatal(err)
	}
	two, again, err := parsed.Encode()
	if err != nil || id != again {
		t.Fatalf("digest %s became %s (%v)", id, again, err)
	}
	if diff := cmp.Diff(string(one), string(two)); diff != "" {
		t.Error(diff)
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	good, _, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"path":      strings.Replace(string(good), "library/nginx", "../../nginx", 1),
		"tag":       strings.Replace(string(good), `"latest"`, `"../x"`, 1),
		"long tag":  strings.Replace(string(good), `"latest"`, `"`+strings.Repeat("t", 129)+`"`, 1),
		"digest":    strings.Replace(string(good), `"digest":"sha256:`, `"digest":"sha256:../`, 1),
		"order":     strings.Replace(string(good), "library/nginx", "zz/nginx", 1),
		"unknown":   strings.Replace(string(good), `"blobs"`, `"bolbs"`, 1),
		"version":   strings.Replace(string(good), `"schemaVersion":1`, `"schemaVersion":2`, 1),
		"truncated": string(good[:len(good)-1]),
		"not json":  "x",
	} {
		if _, err := tree.Parse([]byte(in)); !errors.Is(err, tree.ErrInvalid) {
			t.Errorf("%s: Parse = %v, want ErrInvalid", name, err)
		}
	}
}

func TestPlaceAndVerifyLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := sample()
	if _, _, err := d.Encode(); err != nil {
		t.Fatal(err)
	}
	if err := tree.Prepare(dir, d); err != nil {
		t.Fatal(err)
	}
	err := tree.Place(dir, d, func(d digest.Digest, path string) error { return os.WriteFile(path, nil, 0o444) })
	if err != nil {
		t.Fatal(err)
	}
	if faults := tree.VerifyLinks(dir, d); len(faults) != 0 {
		t.Fatalf("a new tree has faults: %v", faults)
	}
	if tree.Present(dir, d) {
		t.Error("blobs of another size are present")
	}
	for _, b := range d.Blobs {
		if err := os.Truncate(filepath.Join(dir, tree.Root, tree.BlobPath(b.Digest)), b.Size); err != nil {
			t.Fatal(err)
		}
	}
	if !tree.Present(dir, d) {
		t.Error("a new tree is not all present")
	}
	tag := filepath.Join(dir, "registry/docker/registry/v2/repositories/library/nginx/_manifests/tags/latest/current/link")
	if b, err := os.ReadFile(tag); err != nil || digest.Digest(b) != digest.FromString("a") {
		t.Fatalf("tag link holds %q, %v", b, err)
	}
	if err := os.WriteFile(tag, []byte("sha256:0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, tree.Root, tree.LayerPath("library/nginx", digest.FromString("c")))); err != nil {
		t.Fatal(err)
	}
	if faults := tree.VerifyLinks(dir, d); len(faults) != 2 {
		t.Fatalf("VerifyLinks = %v, want two faults", faults)
	}
}
