package store_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

func save(t testing.TB, s *store.Store, o store.SaveOptions, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Save(t.Context(), &b, names, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	commit(t, from, "a", "one")
	commit(t, from, "reg.example:5000/b:v2", "two")
	img, err := from.Image(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	saved := save(t, from, store.SaveOptions{}, "a", "reg.example:5000/b:v2")
	if !bytes.Equal(saved, save(t, from, store.SaveOptions{}, "a", "reg.example:5000/b:v2")) {
		t.Error("two saves differ")
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(saved); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"plain": saved, "gzip": zipped.Bytes()} {
		to := open(t, t.TempDir())
		loaded, err := to.Load(t.Context(), bytes.NewReader(b))
		if err != nil || len(loaded) != 2 {
			t.Fatalf("%s: %d images, %v", name, len(loaded), err)
		}
		got, err := to.Image(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		got.Built, got.Added = img.Built, img.Added
		if diff := cmp.Diff(img, got); diff != "" {
			t.Error(diff)
		}
		for _, n := range []string{"a", "reg.example:5000/b:v2"} {
			if v, err := to.Verify(t.Context(), n, store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
				t.Errorf("%s: %+v, %v", n, v, err)
			}
		}
	}
}

func TestSavePlatforms(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	var all []ocispec.Descriptor
	for _, p := range []string{"amd64", "arm64", "s390x"} {
		all = append(all, write(t, from, p, addLayer(t, from, file("a", p))))
	}
	idx, err := from.WriteIndex(t.Context(), all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Commit(t.Context(), names(t, "multi"), idx); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		platforms string
		digest    digest.Digest
		images    int
	}{{"", idx.Digest, 3}, {"arm64", all[1].Digest, 1}, {"arm64,amd64", idx.Digest, 2}} {
		list, err := platform.ParseList(tc.platforms)
		if err != nil {
			t.Fatal(err)
		}
		to := open(t, t.TempDir())
		loaded, err := to.Load(t.Context(), bytes.NewReader(save(t, from, store.SaveOptions{Platforms: list}, "multi")))
		if err != nil || len(loaded) != tc.images || loaded[0].Descriptor.Digest != tc.digest {
			t.Errorf("%q: %d images, %v", tc.platforms, len(loaded), err)
		}
	}
	list, _ := platform.ParseList("riscv64")
	if _, err := from.Save(t.Context(), io.Discard, []string{"multi"}, store.SaveOptions{Platforms: list}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("riscv64: %v", err)
	}
}

// archiveOf writes a tar of files, in order.
func archiveOf(t testing.TB, files ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeTar(files...)(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLoadIsHostile(t *testing.T) {
	t.Parallel()
	blobName := func(content string) string { return "blobs/sha256/" + digest.FromString(content).Encoded() }
	index := func(mediaType, content string) entry {
		b, err := json.Marshal(ocispec.Index{Manifests: []ocispec.Descriptor{{
			MediaType: mediaType, Digest: digest.FromString(content), Size: int64(len(content)),
			Annotations: map[string]string{ocispec.AnnotationRefName: "a:v1"},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return file("index.json", string(b))
	}
	manifest := func(config string, layers ...string) string {
		m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest}
		m.Config = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString(config), Size: int64(len(config))}
		for _, l := range layers {
			m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString(l), Size: int64(len(l))})
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	config := func(ids ...digest.Digest) string {
		b, err := json.Marshal(ocispec.Image{
			Config: ocispec.ImageConfig{Labels: map[string]string{"io.buildah.version": "1.27.1"}}, // as of sealer 0.9
			RootFS: ocispec.RootFS{DiffIDs: ids},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	imageOf := func(layers ...string) []entry { // the IDs are those of the layers, uncompressed
		var ids []digest.Digest
		out := []entry{}
		for _, l := range layers {
			ids = append(ids, digest.FromString(l))
			out = append(out, file(blobName(l), l))
		}
		c := config(ids...)
		m := manifest(c, layers...)
		return append(out, file(blobName(c), c), file(blobName(m), m), index(ocispec.MediaTypeImageManifest, m))
	}
	good := string(archiveOf(t, file("etc/a", "x")))
	escaping := string(archiveOf(t, entry{name: "out", link: "/"}, file("out/tmp/x", "x")))
	wrongID := manifest(config(digest.FromString("another tar")), good)
	fewIDs := manifest(config(), good)
	ordinary := manifest(`{"config":{"Cmd":["nginx"]}}`)
	traversal := `{"manifests":[{"mediaType":"` + ocispec.MediaTypeImageManifest + `","digest":"sha256:../../../../etc/passwd","size":1}]}`
	for name, tc := range map[string]struct {
		files []entry
		want  error
	}{
		"good":               {imageOf(good), nil},
		"no layers":          {imageOf(), nil},
		"ordinary image":     {[]entry{file(blobName(`{"config":{"Cmd":["nginx"]}}`), `{"config":{"Cmd":["nginx"]}}`), file(blobName(ordinary), ordinary), index(ocispec.MediaTypeImageManifest, ordinary)}, image.ErrForeign},
		"empty":              {nil, store.ErrInvalid},
		"no index":           {imageOf(good)[:3], store.ErrInvalid},
		"docker save":        {[]entry{file("manifest.json", "[]"), file("abc/layer.tar", good)}, store.ErrInvalid},
		"escaping layer":     {imageOf(escaping), store.ErrInvalid},
		"no tar":             {imageOf("not a tar"), store.ErrInvalid},
		"wrong blob":         {[]entry{file(blobName("x"), "y"), index(ocispec.MediaTypeImageManifest, "x")}, store.ErrMismatch},
		"missing blob":       {imageOf(good)[1:], store.ErrNotFound},
		"missing manifest":   {[]entry{index(ocispec.MediaTypeImageManifest, "x")}, store.ErrNotFound},
		"wrong layer ID":     {append(imageOf(good), file(blobName(wrongID), wrongID), file(blobName(config(digest.FromString("another tar"))), config(digest.FromString("another tar"))), index(ocispec.MediaTypeImageManifest, wrongID)), store.ErrMismatch},
		"too few IDs":        {append(imageOf(good), file(blobName(fewIDs), fewIDs), file(blobName(config()), config()), index(ocispec.MediaTypeImageManifest, fewIDs)), store.ErrInvalid},
		"digest as a path":   {append(imageOf(good), file("index.json", traversal)), store.ErrInvalid},
		"name as a path":     {append([]entry{file("../../x", "x"), file("blobs/sha256/../../x", "x"), {name: blobName("l"), link: "/etc/passwd"}}, imageOf(good)...), nil},
		"index of no images": {[]entry{file("index.json", `{"manifests":[]}`)}, store.ErrInvalid},
		"index is no json":   {[]entry{file("index.json", `<html>`)}, store.ErrInvalid},
		"manifest no json":   {[]entry{file(blobName("x"), "x"), index(ocispec.MediaTypeImageManifest, "x")}, store.ErrInvalid},
		"media type":         {[]entry{file(blobName("x"), "x"), index("text/plain", "x")}, store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, check := outside(t)
			loaded, err := s.Load(t.Context(), bytes.NewReader(archiveOf(t, tc.files...)))
			if !errors.Is(err, tc.want) {
				t.Errorf("Load: %v, want %v", err, tc.want)
			}
			check(t)
			all, err := s.Images(t.Context())
			if err != nil || len(all) != len(loaded) || (tc.want == nil) != (len(all) == 1) {
				t.Errorf("images: %v, %v", all, err)
			}
			if tc.want == nil && (len(all[0].Names) != 1 || all[0].Names[0] != "docker.io/library/a:v1" || !all[0].Plain) {
				t.Errorf("image: %+v", all[0])
			}
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
			if blobs, layers := held(t, s); tc.want != nil && len(blobs)+len(layers) > 0 {
				t.Errorf("a load that failed left %v %v", blobs, layers)
			}
		})
	}
	for name, b := range map[string][]byte{"nothing": nil, "text": []byte("hello"), "cut": archiveOf(t, imageOf(good)...)[:700]} {
		s := open(t, t.TempDir())
		if _, err := s.Load(t.Context(), bytes.NewReader(b)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// held returns the names of the store's blobs and layers.
func held(t testing.TB, s *store.Store) (blobs, layers []string) {
	t.Helper()
	for _, in := range []struct {
		dir string
		out *[]string
	}{{"image/blobs/sha256", &blobs}, {"data/overlay2", &layers}} {
		all, err := os.ReadDir(filepath.Join(s.Root(), in.dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			*in.out = append(*in.out, e.Name())
		}
	}
	return blobs, layers
}

// Blobs that index.json does not reach are not taken.
func TestLoadTakesOnlyItsImages(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	commit(t, from, "a", "one")
	good := save(t, from, store.SaveOptions{}, "a")
	junk := archiveOf(t, file("blobs/sha256/"+digest.FromString("junk").Encoded(), "junk"))
	junk = junk[:1024] // one entry, without the end of the archive
	to := open(t, t.TempDir())
	if _, err := to.Load(t.Context(), bytes.NewReader(append(junk, good...))); err != nil {
		t.Fatal(err)
	}
	want, _ := held(t, from)
	if got, _ := held(t, to); !cmp.Equal(want, got) {
		t.Errorf("blobs:\n%v\nwant\n%v", got, want)
	}
}

// A plain OCI image as sealer 0.9 and later make them.
func TestPlainImage(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	l := addLayer(t, s, file("charts/a", "x"))
	put := func(mediaType string, v any) ocispec.Descriptor {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		d := blob(t, s, string(b))
		d.MediaType = mediaType
		return d
	}
	c := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"},
		Config:   ocispec.ImageConfig{Env: []string{"A=1", "B=x=y"}, Cmd: []string{"/bin/sh", "-c", "kubectl apply -f x"}, Labels: map[string]string{"l": "1"}},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.ID}},
		History:  []ocispec.History{{CreatedBy: "ENV", EmptyLayer: true}, {CreatedBy: "COPY a charts"}},
	}
	m := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    put(ocispec.MediaTypeImageConfig, c),
		Layers:    l.Descriptors,
		Annotations: map[string]string{
			"sealer.image.extension": `{"buildClient":{"sealerVersion":"v0.9.3","buildahVersion":"1.27.1"},"schemaVersion":"v1alpha1","type":"app-installer",
				"applications":[{"name":"nginx","type":"helm","files":["nginx"],"version":"v1","cmds":["helm install nginx ."]}],
				"labels":{"m":"2"},"env":{"A":"2"},"launch":{"cmds":["bash a.sh"],"app_names":["nginx"]}}`,
			"sealer.image.container.images": `[{"image":"nginx:1.25","appName":"nginx","platform":{"os":"linux","architecture":"arm64"}}]`,
		},
	}
	if err := s.Commit(t.Context(), names(t, "plain"), put(ocispec.MediaTypeImageManifest, m)); err != nil {
		t.Fatal(err)
	}
	img, err := s.Image(t.Context(), "plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := image.Config{
		SealerVersion:   "v0.9.3",
		Type:            image.TypeAppInstaller,
		Platform:        ocispec.Platform{OS: "linux", Architecture: "arm64"},
		Layers:          []image.ConfigLayer{{ID: l.ID, Type: "FROM", Value: "COPY a charts"}},
		Cmd:             image.Commands{Current: []string{"kubectl apply -f x"}},
		Env:             map[string]string{"A": "2", "B": "x=y"},
		Labels:          map[string]string{"l": "1", "m": "2"},
		Applications:    []image.Application{{Name: "nginx", Type: "helm", Files: []string{"application/apps/nginx/nginx"}, Cmds: []string{"helm install nginx ."}, Version: "v1"}},
		Launch:          &image.Launch{Apps: []string{"nginx"}, Cmds: []string{"bash a.sh"}},
		PrivateRegistry: image.PrivateRegistry{Name: "sea.hub:5000", Naming: "path"},
		Images: []image.MirroredImage{{
			Reference: image.ParseName("docker.io/library/nginx:1.25"), Platforms: []string{"linux/arm64"},
			Found: []image.Provenance{{Object: "application/nginx", Rule: "sealer.image.container.images", Confidence: "certain"}},
		}},
	}
	if diff := cmp.Diff(want, img.Config); diff != "" {
		t.Error(diff)
	}
	if !img.Plain {
		t.Error("not plain")
	}
	// As a base: its layers with one more.
	more := addLayer(t, s, file("b", "x"))
	c2 := img.Config
	c2.Layers = append(c2.Layers, image.ConfigLayer{Type: "COPY", Value: "b ."})
	d, err := s.WriteImage(t.Context(), c2, append(img.Layers, more), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), names(t, "child"), d); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.LayerDir(more.ID)); err != nil {
		t.Error(err)
	}
}

// FuzzLoad: an archive of arbitrary bytes stays in the store.
func FuzzLoad(f *testing.F) {
	s := open(f, f.TempDir())
	commit(f, s, "a", "x")
	f.Add(save(f, s, store.SaveOptions{}, "a"))
	f.Add(archiveOf(f, file("index.json", `{"manifests":[]}`)))
	_, _, delta := deltaOf(f)
	f.Add(delta)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, check := outside(t)
		_, _ = s.Load(t.Context(), bytes.NewReader(b))
		check(t)
		if left := temporaries(t, s); left != nil {
			t.Errorf("left: %v", left)
		}
		if all, err := s.Images(t.Context()); err != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}
