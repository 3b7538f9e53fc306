package report

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
)

type memory map[digest.Digest][]byte

func (m memory) ReadBlob(_ context.Context, d digest.Digest, _ int64) ([]byte, error) {
	if b, ok := m[d]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("no blob %s", d)
}

// put adds a manifest with layers to the blobs of doc.
func (m memory) put(doc *tree.Document, sizes map[string]int64) digest.Digest {
	text := `{"layers":[`
	sep := ""
	for name, size := range sizes {
		d := digest.FromString(name)
		text += fmt.Sprintf(`%s{"digest":%q,"size":%d}`, sep, d, size)
		sep = ","
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d, Size: size})
	}
	text += `]}`
	d := digest.FromString(text)
	m[d] = []byte(text)
	doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d, Size: 1})
	return d
}

// The bytes of images, of registries and of what images share add up, and each
// blob counts once over all platforms.
func TestOfImage(t *testing.T) {
	t.Parallel()
	blobs, doc := memory{}, &tree.Document{}
	a := blobs.put(doc, map[string]int64{"base": 100, "a": 10})
	b := blobs.put(doc, map[string]int64{"base": 100, "b": 20})
	c := blobs.put(doc, map[string]int64{"c": 5})
	place := func(file string) []image.Provenance { return []image.Provenance{{File: file, Line: 1}} }
	config := func(more ...image.MirroredImage) *image.Config {
		return &image.Config{Images: append([]image.MirroredImage{
			{Reference: image.ParseName("quay.io/x/a:1"), Digest: a, Found: place("one")},
			{Reference: image.ParseName("nginx"), Source: image.ParseName("mirror.example/nginx:1"), Digest: b},
			{Reference: image.ParseName("quay.io/x/opt:1"), Missing: image.NotMirrored + "optional"},
		}, more...)}
	}
	gap := image.Gap{Grade: image.GapOpen, File: "f", Reason: "r"}
	one := config(image.MirroredImage{Reference: image.ParseName("quay.io/x/c:1"), Digest: c})
	one.Gaps = []image.Gap{gap}
	two := config(image.MirroredImage{Reference: image.ParseName("quay.io/x/lost:1"), Missing: "404"})
	two.Images[0].Found = place("two")
	two.Gaps = []image.Gap{gap, {Grade: "doubtful", File: "g"}}
	layer := image.Layer{ID: "sha256:1", Descriptors: []ocispec.Descriptor{{MediaType: tree.MediaTypeDocument, Digest: "sha256:1", Size: 7}}}
	for _, b := range doc.Blobs {
		layer.Descriptors = append(layer.Descriptors, ocispec.Descriptor{Digest: b.Digest, Size: b.Size})
	}
	part := func(c *image.Config, arch string, missing ...Missing) Part {
		c.Layers = []image.ConfigLayer{{}}
		return Part{
			Platform: ocispec.Platform{OS: "linux", Architecture: arch}, Config: c, Documents: []*tree.Document{doc}, Layers: []image.Layer{layer}, Missing: missing,
			Manifest: ocispec.Descriptor{Digest: digest.FromString(arch), Size: 3},
		}
	}
	got, err := OfImage(t.Context(), "app:v1", "sha256:0", []Part{part(one, "amd64"), part(two, "arm64", Missing{Reference: "other:1", Why: "no tag"})}, blobs)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Reference, Registry string
		Size, Own           int64
		Platforms           []string
		Found               int
	}
	var lines []line
	for _, m := range got.Mirrored {
		lines = append(lines, line{m.Reference, m.Registry, m.Size, m.Own, m.Platforms, len(m.Found)})
	}
	both := []string{"linux/amd64", "linux/arm64"}
	if d := cmp.Diff([]line{
		{"docker.io/library/nginx:latest", "mirror.example", 121, 21, both, 0},
		{"quay.io/x/a:1", "quay.io", 111, 11, both, 2},
		{"quay.io/x/c:1", "quay.io", 6, 6, both[:1], 0},
	}, lines); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Source{{"mirror.example", 1, 121, 21}, {"quay.io", 2, 117, 17}}, got.Registries); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Shared{{[]string{"docker.io/library/nginx:latest", "quay.io/x/a:1"}, 100}}, got.Shared); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Missing{{"linux/arm64", "quay.io/x/lost:1", "404", nil}, {"linux/arm64", "other:1", "no tag", nil}}, got.Missing); d != "" {
		t.Error(d)
	}
	if len(got.Gaps) != 2 || !cmp.Equal(got.Gaps[0].Platforms, both) || got.Open() != 1 || got.Complete() {
		t.Errorf("gaps %+v", got.Gaps)
	}
	if want := "incomplete: 2 container images are missing, 1 gap is open"; got.Verdict() != want {
		t.Errorf("%q", got.Verdict())
	}
	if len(got.Layers) != 1 || got.Size != 2*3+7+100+10+20+5+3 {
		t.Errorf("%d layers, %d bytes", len(got.Layers), got.Size)
	}
	if len(got.Listed) != 1 || got.Listed[0].Why != "optional" {
		t.Errorf("listed %+v", got.Listed)
	}
}
