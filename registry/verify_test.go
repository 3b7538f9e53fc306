package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

func parseRefs(t *testing.T, names ...string) []ref.Reference {
	t.Helper()
	var out []ref.Reference
	for _, n := range names {
		r, err := ref.Parse(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func platforms(t *testing.T, s string) []ocispec.Platform {
	t.Helper()
	p, err := platform.ParseList(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestVerifyComplete(t *testing.T) {
	t.Parallel()
	for _, naming := range []tree.Naming{tree.NamingPath, tree.NamingFull} {
		low := writeLayer(t, naming, samples()[:6])
		high := writeLayer(t, naming, samples()[6:], low)
		references := append(low.Images, high.Images...)
		for _, l := range []*registrytest.DiskLayer{low, high} {
			for _, r := range l.Images {
				r.Digest = l.Contents[r.String()].Root.Digest
				references = append(references, r)
				r.Tag = ""
				references = append(references, r)
			}
		}
		private := high.Images[0] // by its own name in the private registry
		private.Registry, private.Repository = ref.DefaultPrivate, naming.Repository(private)
		references = append(references, private)
		missing, err := registry.Verify(t.Context(), registry.Dirs(low.Dir, high.Dir), references, registry.VerifyOptions{Naming: naming, Platforms: platforms(t, "linux/amd64")})
		if err != nil || len(missing) != 0 {
			t.Errorf("%s: %v, %v", naming, missing, err)
		}
	}
}

// TestVerifyFinds breaks one thing at a time.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	image := registrytest.Image{Name: "nginx:latest", Platforms: []string{"amd64", "arm64"}, Layers: registrytest.Layers("base", "nginx")}
	content, err := registrytest.Build(image)
	if err != nil {
		t.Fatal(err)
	}
	root, child := content.Root.Digest, content.Manifests[0].Digest
	m := manifest(t, content)
	base := m.Layers[0].Digest
	const repository = "library/nginx"
	remove := func(path string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, tree.Root, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	overwrite := func(d digest.Digest, content string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, tree.Root, tree.BlobPath(d))
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		reference, platforms string
		harm                 func(*testing.T, string)
		want                 string // "" is complete
	}{
		"nothing":           {"nginx", "amd64,arm64", nil, ""},
		"tag":               {"nginx", "amd64", remove(tree.TagPath(repository, "latest")), "tag latest is not there"},
		"other tag":         {"nginx:1", "amd64", nil, "tag 1 is not there"},
		"other repository":  {"quay.io/x/nginx", "amd64", nil, "tag latest is not there"},
		"private":           {"sea.hub:5000/library/nginx", "amd64", nil, ""},
		"private, no image": {"sea.hub:5000/nginx", "amd64", nil, "tag latest is not there"},
		"other digest":      {"nginx@" + digest.FromString("x").String(), "amd64", nil, "manifest " + digest.FromString("x").String() + " is not there"},
		"index blob":        {"nginx", "amd64", remove(tree.BlobPath(root)), "manifest " + root.String() + " is not there"},
		"child revision":    {"nginx", "amd64", remove(tree.RevisionPath(repository, child)), "for linux/amd64: manifest " + child.String() + " is not there"},
		"child unasked":     {"nginx", "arm64", remove(tree.RevisionPath(repository, child)), ""},
		"child, any":        {"nginx", "", remove(tree.RevisionPath(repository, child)), ""},
		"platform":          {"nginx", "amd64,s390x", nil, "index " + root.String() + " has nothing for linux/s390x"},
		"layer link":        {"nginx", "amd64", remove(tree.LayerPath(repository, base)), "layer " + base.String()},
		"layer blob":        {"nginx", "amd64", remove(tree.BlobPath(base)), "is not there"},
		"config blob":       {"nginx", "amd64", remove(tree.BlobPath(m.Config.Digest)), "config " + m.Config.Digest.String()},
		"short layer":       {"nginx", "amd64", overwrite(base, "short"), "has 5 bytes, want"},
		"changed manifest":  {"nginx", "amd64", overwrite(child, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`), "its content has the digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := writeLayer(t, tree.NamingPath, []registrytest.Image{image})
			if tc.harm != nil {
				tc.harm(t, l.Dir)
			}
			references := parseRefs(t, tc.reference)
			missing, err := registry.Verify(t.Context(), registry.Dirs(l.Dir), references, registry.VerifyOptions{Platforms: platforms(t, tc.platforms)})
			switch {
			case err != nil:
				t.Fatal(err)
			case tc.want == "" && len(missing) > 0:
				t.Errorf("complete, but: %v", missing)
			case tc.want != "" && (len(missing) != 1 || missing[0].Reference != references[0] || !strings.Contains(missing[0].Error(), tc.want)):
				t.Errorf("missing %v, want %q", missing, tc.want)
			}
		})
	}
}

// TestVerifyForeign: a layer that must not be copied may be absent; another one
// with URLs may not.
func TestVerifyForeign(t *testing.T) {
	t.Parallel()
	for mediaType, complete := range map[string]bool{
		"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip":    true,
		"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": true,
		"application/vnd.oci.image.layer.v1.tar+gzip":                  false,
	} {
		dir := imageWith(t, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig}, []byte(`{}`),
			ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString("absent"), Size: 6, URLs: []string{"https://example.com/layer"}})
		missing, err := registry.Verify(t.Context(), registry.Dirs(dir), parseRefs(t, "win"), registry.VerifyOptions{})
		if err != nil || (len(missing) == 0) != complete {
			t.Errorf("%s: missing %v, %v; complete should be %v", mediaType, missing, err, complete)
		}
	}
}

// TestVerifyPlatform: an image without an index is for what its config says, if
// it is a container image's and says anything.
func TestVerifyPlatform(t *testing.T) {
	t.Parallel()
	const docker, chart = "application/vnd.docker.container.image.v1+json", "application/vnd.cncf.helm.config.v1+json"
	for name, tc := range map[string]struct {
		mediaType, config, platforms string
		want                         string // "" is complete
	}{
		"right":           {ocispec.MediaTypeImageConfig, `{"os":"linux","architecture":"arm64","variant":"v8"}`, "arm64", ""},
		"lower variant":   {docker, `{"os":"linux","architecture":"arm","variant":"v6"}`, "linux/arm/v7", ""},
		"wrong":           {ocispec.MediaTypeImageConfig, `{"os":"linux","architecture":"amd64"}`, "arm64", "it is for linux/amd64 only, not for linux/arm64"},
		"wrong, Docker":   {docker, `{"os":"windows","architecture":"amd64"}`, "amd64", "it is for windows/amd64 only"},
		"one of two":      {docker, `{"os":"linux","architecture":"amd64"}`, "amd64,arm64", "not for linux/arm64"},
		"any platform":    {docker, `{"os":"linux","architecture":"s390x"}`, "", ""},
		"it says nothing": {ocispec.MediaTypeImageConfig, `{}`, "arm64", ""},
		"no image":        {chart, `{"os":"linux","architecture":"amd64"}`, "arm64", ""},
		"no JSON":         {docker, `[`, "amd64", "image config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := imageWith(t, ocispec.Descriptor{MediaType: tc.mediaType}, []byte(tc.config))
			missing, err := registry.Verify(t.Context(), registry.Dirs(dir), parseRefs(t, "win"), registry.VerifyOptions{Platforms: platforms(t, tc.platforms)})
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(missing) > 0 || tc.want != "" && (len(missing) != 1 || !strings.Contains(missing[0].Error(), tc.want)) {
				t.Errorf("missing %v, want %q", missing, tc.want)
			}
		})
	}
}

// imageWith writes a layer with the image win:latest, that has config, of the
// type that desc says, and layers.
func imageWith(t *testing.T, desc ocispec.Descriptor, config []byte, layers ...ocispec.Descriptor) string {
	t.Helper()
	desc.Digest, desc.Size = digest.FromBytes(config), int64(len(config))
	m, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: desc, Layers: layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	root := digest.FromBytes(m)
	blobs := map[digest.Digest][]byte{root: m, desc.Digest: config}
	d := &tree.Document{
		Repositories: []tree.Repository{{
			Name:      "library/win",
			Tags:      []tree.Tag{{Name: "latest", Digest: root}},
			Revisions: []tree.Revision{{Digest: root, MediaType: ocispec.MediaTypeImageManifest, Size: int64(len(m))}},
			Layers:    []digest.Digest{desc.Digest},
		}},
		Blobs: []tree.Blob{{Digest: root, Size: int64(len(m))}, {Digest: desc.Digest, Size: desc.Size}},
	}
	dir := t.TempDir()
	if err := tree.Prepare(dir, d); err != nil {
		t.Fatal(err)
	}
	if err := tree.Place(dir, d, func(d digest.Digest, path string) error { return os.WriteFile(path, blobs[d], 0o444) }); err != nil {
		t.Fatal(err)
	}
	return dir
}
