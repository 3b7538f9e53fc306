package transfer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

// put puts content into s.
func put(t testing.TB, s *store.Store, mediaType string, content []byte) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	err := s.PutBlob(t.Context(), d, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// blobsPerImage is the number of blobs of a container image of these tests: a
// manifest, a config and two layers.
const blobsPerImage = 4

// mirrored returns the document of n container images, of which the last has the
// revision, with their blobs in s.
func mirrored(t testing.TB, s *store.Store, from, n, revision int) *tree.Document {
	t.Helper()
	doc := &tree.Document{}
	for i := from; i < n; i++ {
		v := 0
		if i == n-1 {
			v = revision
		}
		m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
		m.Config = put(t, s, ocispec.MediaTypeImageConfig, fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","n":%d,"v":%d}`, i, v))
		for l := range blobsPerImage - 2 {
			m.Layers = append(m.Layers, put(t, s, ocispec.MediaTypeImageLayer, fmt.Appendf(nil, "layer %d of %d, %d", l, i, v)))
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		top := put(t, s, m.MediaType, b)
		source := ref.Reference{Registry: "quay.io", Repository: fmt.Sprintf("apps/app-%04d", i), Tag: "v1"}
		repository := tree.Repository{
			Name:      fmt.Sprintf("apps/app-%04d", i),
			Tags:      []tree.Tag{{Name: "v1", Digest: top.Digest, Sources: []ref.Reference{source}}},
			Revisions: []tree.Revision{{Digest: top.Digest, MediaType: top.MediaType, Size: top.Size}},
		}
		for _, d := range append([]ocispec.Descriptor{top, m.Config}, m.Layers...) {
			doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d.Digest, Size: d.Size})
			if d.Digest != top.Digest {
				repository.Layers = append(repository.Layers, d.Digest)
			}
		}
		doc.Repositories = append(doc.Repositories, repository)
	}
	return doc
}

// build commits an image of n container images under names, the last of them in
// the revision. With base its layers are below, and only the images beyond
// the base's n are added.
func build(t testing.TB, s *store.Store, base *store.Image, from, n, revision int, names ...string) *store.Image {
	t.Helper()
	return commitDocument(t, s, base, mirrored(t, s, from, n, revision), names...)
}

// commitDocument commits an image with the registry layer of doc over those of
// base, which may be nil.
func commitDocument(t testing.TB, s *store.Store, base *store.Image, doc *tree.Document, names ...string) *store.Image {
	t.Helper()
	c := image.Config{SealerVersion: "test", Type: image.TypeAppInstaller, Platform: platform.Default()}
	var layers []image.Layer
	if base != nil {
		layers, c.Layers = append(layers, base.Layers...), append(c.Layers, base.Config.Layers...)
	}
	l, err := s.WriteRegistryLayer(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	layers = append(layers, l)
	c.Layers = append(c.Layers, image.ConfigLayer{Type: image.LayerTypeBase, Value: image.RegistryLayerValue})
	d, err := s.WriteImage(t.Context(), c, layers, nil)
	if err != nil {
		t.Fatal(err)
	}
	var refs []ref.Reference
	for _, name := range names {
		r, err := ref.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r)
	}
	if d, err = s.WriteTop(t.Context(), []ocispec.Descriptor{d}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), refs, d); err != nil {
		t.Fatal(err)
	}
	im, err := s.Image(t.Context(), names[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// traffic is what one command costs.
type traffic struct {
	requests  int
	down      int64 // bytes of the bodies of answers
	blobsUp   int64 // bytes of blobs that were sent
	blobsSent int
	log       string // the requests
}

// travel is a lab of one registry.
type travel struct {
	t  testing.TB
	up *registrytest.Upstream
}

func newTravel(t testing.TB) *travel {
	return &travel{t, registrytest.New(t, registrytest.Options{})}
}

// measure returns the traffic of do, and fails when do fails.
func (v *travel) measure(do func(c *remote.Client) error) traffic {
	v.t.Helper()
	v.up.ResetRequests()
	if err := do(newClient(v.t, v.up)); err != nil {
		v.t.Fatal(err)
	}
	var out traffic
	for _, r := range v.up.Requests() {
		out.requests++
		out.down += r.Bytes
		if r.Level == registrytest.Upload && r.Method != "POST" {
			out.blobsUp += r.Received
			out.blobsSent++
		}
		out.log += fmt.Sprintf("%s %s %d\n", r.Method, r.URL, r.Status)
	}
	return out
}

// push pushes im from s to name in the registry.
func (v *travel) push(s *store.Store, im *store.Image, name string, o transfer.PushOptions) traffic {
	v.t.Helper()
	return v.measure(func(c *remote.Client) error {
		_, err := transfer.Push(v.t.Context(), s, c, im.ID, v.up.Ref(name), o)
		return err
	})
}

func (v *travel) pull(s *store.Store, name string) traffic {
	v.t.Helper()
	return v.measure(func(c *remote.Client) error {
		_, err := transfer.Pull(v.t.Context(), s, c, v.up.Ref(name), remote.PullOptions{})
		return err
	})
}

// A row is a line of the table of make bench-travel.
type row struct {
	name     string
	got      traffic
	requests float64 // the most that are good
}

// rows does each kind of travel with n container images.
func rows(t testing.TB, n int) []row {
	v := newTravel(t)
	s := storetest.New(t)
	blobs := func(im *store.Image) float64 { return float64(len(im.Manifest.Layers) + 1) }
	// The new blobs when one container image changes: its own, the document, the
	// ClusterImage's config.
	const changed = blobsPerImage + 2
	v1 := build(t, s, nil, 0, n, 0, "team/q:v1")
	v2 := build(t, s, nil, 0, n, 2, "team/q:v2")
	v4 := build(t, s, nil, 0, n, 4, "team/q:v4")
	var out []row
	add := func(name string, got traffic, requests float64) { out = append(out, row{name, got, requests}) }
	add("first push", v.push(s, v1, "team/q:v1", transfer.PushOptions{}), 2*blobs(v1)+4)
	add("push again", v.push(s, v1, "team/q:v1", transfer.PushOptions{}), 2)
	add("new tag, nothing to send", v.push(s, v1, "team/q:v1.0", transfer.PushOptions{}), 5)
	add("new tag, one image changed", v.push(s, v2, "team/q:v2", transfer.PushOptions{}), 8+2*changed)
	add("same tag, one image changed", v.push(s, v4, "team/q:v2", transfer.PushOptions{}), 8+2*changed)

	// Another machine, which knows nothing of the registry.
	other := storetest.New(t)
	o1 := build(t, other, nil, 0, n, 0, "team/q:v1")
	add("new tag, nothing to send, other machine", v.push(other, o1, "team/q:other", transfer.PushOptions{}), 5)
	third := storetest.New(t)
	t3 := build(t, third, nil, 0, n, 3, "team/q:v3")
	add("new tag, one image changed, other machine", v.push(third, t3, "team/q:v3", transfer.PushOptions{}), 8+2*changed)

	add("other repository", v.push(s, v1, "team/q-prod:v1", transfer.PushOptions{}), 1.1*blobs(v1))
	add("other repository, known base", v.push(s, v4, "team/q-prod:v2", transfer.PushOptions{}), 10+changed)
	fourth := storetest.New(t)
	f1 := build(t, fourth, nil, 0, n, 0, "team/q:v1")
	add("other repository, --base-hint", v.push(fourth, f1, "team/q-test:v1", transfer.PushOptions{Base: v.up.Ref("team/q:v1")}), 1.1*blobs(f1)+4)

	puller := storetest.New(t)
	add("first pull", v.pull(puller, "team/q:v1"), 3+blobs(v1))
	add("pull again", v.pull(puller, "team/q:v1"), 2)
	base, err := puller.Image(t.Context(), v.up.Ref("team/q:v1").String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	app := build(t, puller, base, n, n+1, 0, "team/app:v1")
	add("FROM in the same registry", v.push(puller, app, "team/app:v1", transfer.PushOptions{}), 1.1*blobs(v1)+2*changed+8)

	mirrors := func() traffic {
		return v.measure(func(c *remote.Client) error {
			_, _, err := transfer.PushMirrored(t.Context(), s, c, v1.ID, nil, mirror.Prefix{Registry: v.up.Host(), Repository: "mirror"}, transfer.PushOptions{})
			return err
		})
	}
	add("registry push, the blobs in another repository", mirrors(), float64(1+n*(blobsPerImage+2)))
	add("registry push again", mirrors(), float64(1+n))
	return out
}

// The blobs of a registry layer have no annotations: they would be a third of the
// manifest.
func TestManifestIsLean(t *testing.T) {
	t.Parallel()
	im := build(t, storetest.New(t), nil, 0, 8, 0, "team/q:v1")
	for i, d := range im.Manifest.Layers {
		if (len(d.Annotations) > 0) != (i == 0) {
			t.Errorf("descriptor %d has the annotations %v", i, d.Annotations)
		}
	}
	if im.ManifestDescriptor.Size > 200*int64(len(im.Manifest.Layers)+3) {
		t.Errorf("a manifest of %d bytes for %d blobs", im.ManifestDescriptor.Size, len(im.Manifest.Layers))
	}
}

// The counts of requests hold for few images as for many.
func TestTravel(t *testing.T) {
	t.Parallel()
	for _, r := range rows(t, 8) {
		if float64(r.got.requests) > r.requests {
			t.Errorf("%s: %d requests, at most %.0f are good:\n%s", r.name, r.got.requests, r.requests, r.got.log)
		}
		sent := map[string]int{
			"new tag, one image changed": blobsPerImage + 2, "same tag, one image changed": blobsPerImage + 2, "new tag, one image changed, other machine": blobsPerImage + 2,
			"FROM in the same registry": blobsPerImage + 2,
		}
		if want := sent[r.name]; r.name != "first push" && r.got.blobsSent != want {
			t.Errorf("%s: %d blobs were sent, want %d:\n%s", r.name, r.got.blobsSent, want, r.got.log)
		}
		if r.name == "pull again" && r.got.down > 1000 {
			t.Errorf("pull again brought %d bytes", r.got.down)
		}
	}
}

// BenchmarkTravel prints the requests and bytes of each kind of travel: make
// bench-travel.
func BenchmarkTravel(b *testing.B) {
	for _, n := range []int{20, 200, 500} {
		b.Run(fmt.Sprintf("images=%d", n), func(b *testing.B) {
			for range b.N {
				for _, r := range rows(b, n) {
					fmt.Printf("%4d images  %-48s %6d requests (at most %5.0f)  %8d bytes of blobs up  %8d bytes down\n",
						n, r.name, r.got.requests, r.requests, r.got.blobsUp, r.got.down)
					for _, f := range []figure.Figure{
						{Value: float64(r.got.requests), Unit: "requests", Goal: &r.requests}, {Value: float64(r.got.blobsUp), Unit: "bytes of blobs sent"}, {Value: float64(r.got.down), Unit: "bytes fetched"},
					} {
						f.Name, f.X, f.XUnit = "travel/"+r.name, float64(n), "images"
						if err := figure.Add(f); err != nil {
							b.Error(err)
						}
					}
				}
			}
		})
	}
}
