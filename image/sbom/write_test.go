package sbom

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

var update = flag.Bool("update", false, "rewrite testdata")

// archive returns a chart as helm package makes it.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression) // so that no other version of Go gives other bytes
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg})
		if _, werr := w.Write([]byte(content)); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sample is an image with an SBOM of each kind.
func sample(t *testing.T) Source {
	t.Helper()
	b := blobs{}
	name := func(s string) ref.Reference {
		r, err := ref.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	app, db, bare := b.put(`{"manifests":[]}`), b.put(`{"layers":[]}`), b.put(`{"layers":[ ]}`)
	sboms := b.put(fmt.Sprintf(`{"manifests":[{"digest":%q}]}`, b.manifest(spdxText, `"artifactType":"application/spdx+json",`)))
	cyclone := b.manifest(cycloneText, "")
	broken := b.manifest("x", `"broken":1,`)
	revision := func(d digest.Digest, kind string, sources ...ref.Reference) tree.Revision {
		return tree.Revision{Digest: d, MediaType: kind, Size: 1, Sources: sources}
	}
	doc := &tree.Document{Repositories: []tree.Repository{
		{
			Name:      "library/app",
			Tags:      []tree.Tag{{Name: "v1", Digest: app, Sources: []ref.Reference{name("app:v1")}}, {Name: tree.AttachmentTag(app), Digest: sboms, Sources: []ref.Reference{name("app:" + tree.AttachmentTag(app))}}},
			Revisions: []tree.Revision{revision(app, ocispec.MediaTypeImageManifest), revision(sboms, ocispec.MediaTypeImageIndex)},
		},
		{
			Name:      "team/db",
			Tags:      []tree.Tag{{Name: tree.AttachmentTag(db) + ".sbom", Digest: cyclone}, {Name: tree.AttachmentTag(db) + ".att", Digest: broken}},
			Revisions: []tree.Revision{revision(db, ocispec.MediaTypeImageManifest, name("quay.io/team/db@"+db.String())), revision(bare, ocispec.MediaTypeImageManifest, name("quay.io/team/db:bare"))},
		},
	}}
	layer := func(s string) image.Layer { return image.Layer{ID: digest.FromString(s)} }
	created := time.Unix(1700000000, 0)
	return Source{
		Name: "registry.example/team/cluster:v1", Manifest: ocispec.Descriptor{Digest: digest.FromString("manifest")},
		Config: &image.Config{
			Created: &created, Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
			Layers: []image.ConfigLayer{{Type: "COPY", Value: "charts charts"}, {Type: "BASE", Value: "registry cache"}},
			Images: []image.MirroredImage{
				{Reference: image.ParseName("app:v1"), Digest: app}, {Reference: image.ParseName("app:v1"), Digest: app},
				{Reference: image.ParseName("lost:v1"), Missing: "optional"}, {Reference: image.Name{Text: "no reference"}}, {Reference: image.ParseName("bad:v1"), Digest: "bad"},
			},
		},
		Layers: []image.Layer{layer("a"), layer("b")}, Documents: []*tree.Document{doc}, Blobs: b,
		Rootfs: fstest.MapFS{
			"registry/docker/registry/v2/x": {Data: []byte("x")},
			"charts/one/Chart.yaml":         {Data: []byte("name: one\nversion: 1.2.3\nannotations: {artifacthub.io/license: Apache-2.0}\n")},
			"charts/one/values.yaml":        {Data: []byte("{}")},
			"charts/one-more":               {Data: []byte("sorts between the directory and its files")},
			"charts/two-0.1.0.tgz":          {Data: archive(t, map[string]string{"two/Chart.yaml": "name: two\nversion: 0.1.0+meta\n"})},
			"charts/bad/Chart.yaml":         {Data: []byte("version: 1\n")},
			"bin/tool.tar.gz":               {Data: archive(t, map[string]string{"tool": "Chart.yaml"})},
			"bin/link":                      {Data: []byte("tool"), Mode: os.ModeSymlink},
			"bin/odd.tgz":                   {Data: []byte("no archive")},
		},
	}
}

// The bytes of both formats are pinned: equal images give equal documents. Other
// readers try the same files; see .ci/sbomreaders.
func TestWrite(t *testing.T) {
	t.Parallel()
	inventory, err := Gather(t.Context(), sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if inventory.Without() != 1 || inventory.Listed != 3 || len(inventory.Images) != 3 {
		t.Errorf("%d without an SBOM, %d listed, %d images; want 1, 3, 3", inventory.Without(), inventory.Listed, len(inventory.Images))
	}
	var unread []string
	for _, e := range inventory.Unread {
		unread = append(unread, e.Error())
	}
	if got := strings.Join(unread, "\n"); len(unread) != 2 || !strings.Contains(got, "neither SPDX nor CycloneDX") || !strings.Contains(got, "chart charts/bad: its Chart.yaml has no name") {
		t.Errorf("unread:\n%s", got)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"sample.spdx.json": func(b *bytes.Buffer) error { return WriteSPDX(b, inventory, "sealer-test") },
		"sample.cdx.json":  func(b *bytes.Buffer) error { return WriteCycloneDX(b, inventory, "test") },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		var any map[string]any
		if err := json.Unmarshal(b.Bytes(), &any); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	// What is written can be read again: two charts, three images, five packages.
	for _, name := range []string{"sample.spdx.json", "sample.cdx.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := Parse(b); err != nil || len(doc.Packages) < 7 {
			t.Errorf("%s: %v, %v", name, doc, err)
		}
	}
}

func TestIsExpression(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"MIT": true, "GPL-2.0+": true, "MIT OR Apache-2.0": true, "(MIT AND (BSD-3-Clause OR 0BSD))": true, "GPL-2.0-only WITH Classpath-exception-2.0": true,
		"": false, "ask the author": false, "MIT OR": false, "(MIT": false, "MIT)": false, "OR MIT": false, "LicenseRef-x": false, "MIT NONE": false, "NOASSERTION": false,
		"MIT AND NOASSERTION": false, "()": false, "(MIT) WITH x": false, "MIT/Apache": false, "MIT MIT": false, "+": false,
	} {
		if got := isExpression(s); got != want {
			t.Errorf("isExpression(%q) = %v", s, got)
		}
	}
}

func TestPURL(t *testing.T) {
	t.Parallel()
	d := digest.Digest("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	for _, c := range []struct {
		r    ref.Reference
		want string
	}{
		{ref.Reference{Registry: "reg.example:5000", Repository: "a/b_c", Tag: "v1"}, "pkg:oci/b_c@sha256%3A" + d.Encoded() + "?repository_url=reg.example%3A5000/a/b_c&tag=v1"},
		{ref.Reference{}, "pkg:oci/image@sha256%3A" + d.Encoded()},
	} {
		if got := ociPURL(c.r, d); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := helmPURL("a b", "1+2"); got != "pkg:helm/a%20b@1%2B2" {
		t.Error(got)
	}
}

// A few bytes of JSON must not become gigabytes.
func TestParseBounds(t *testing.T) {
	t.Parallel()
	deep := `{"name":"x"}`
	for range maxNesting + 1 {
		deep = `{"components":[` + deep + `]}`
	}
	for name, in := range map[string]string{
		"packages":   `{"spdxVersion":"SPDX-2.3","packages":[{}` + strings.Repeat(",{}", maxPackages) + `]}`,
		"components": `{"bomFormat":"CycloneDX","components":[{}` + strings.Repeat(",{}", maxPackages) + `]}`,
		"nested":     `{"bomFormat":"CycloneDX","components":[` + deep + `]}`,
		"inner":      `{"bomFormat":"CycloneDX","components":[{"components":[{}` + strings.Repeat(",{}", maxPackages-1) + `]},{}]}`,
	} {
		if _, err := Parse([]byte(in)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse([]byte(`{"spdxVersion":"SPDX-2.3","packages":{}}`)); err == nil {
		t.Error("an object is no list")
	}
}

// FuzzParse reads hostile SBOMs, and writes what they say.
func FuzzParse(f *testing.F) {
	f.Add([]byte(spdxText))
	f.Add([]byte(cycloneText))
	f.Add([]byte(`{"payload":"e30="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, err := Parse(b)
		if err != nil {
			return
		}
		inventory := &Inventory{Name: "x", Digest: digest.FromString("x"), Images: []Image{{Digest: digest.FromString("y"), SBOMs: []digest.Digest{"z"}, Packages: doc.Packages}}}
		for _, write := range []func(*bytes.Buffer) error{
			func(b *bytes.Buffer) error { return WriteSPDX(b, inventory, "t") },
			func(b *bytes.Buffer) error { return WriteCycloneDX(b, inventory, "t") },
		} {
			var out bytes.Buffer
			if err := write(&out); err != nil || !json.Valid(out.Bytes()) {
				t.Fatalf("%v: %s", err, out.String())
			}
		}
	})
}
