package transfer_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

func newUpstream(t *testing.T, images ...registrytest.Image) *registrytest.Upstream {
	t.Helper()
	return registrytest.New(t, registrytest.Options{Images: images})
}

func newClient(t testing.TB, ups ...*registrytest.Upstream) *remote.Client {
	t.Helper()
	dir := t.TempDir()
	o := remote.Options{
		AuthFile: filepath.Join(dir, "auth.json"), RegistriesConf: filepath.Join(dir, "registries.conf"), CertsDir: dir,
		Backoff: time.Millisecond, Retries: 1,
	}
	for name, content := range map[string]string{o.AuthFile: "{}", o.RegistriesConf: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range ups {
		o.Insecure = append(o.Insecure, u.Host())
	}
	c, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, name string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write writes the image of one platform, with the images that up has under
// mirrored; lacking are listed and left out. It has no name yet.
func write(t *testing.T, s *store.Store, up *registrytest.Upstream, p string, mirrored, lacking []string) ocispec.Descriptor {
	t.Helper()
	pl, err := platform.Parse(p)
	if err != nil {
		t.Fatal(err)
	}
	c := image.Config{SealerVersion: "1", Type: image.TypeKubeInstaller, Platform: pl}
	c.PrivateRegistry.Name = "sea.hub:5000"
	var reqs []mirror.Request
	for _, name := range mirrored {
		reqs = append(reqs, mirror.Request{Reference: up.Ref(name)})
	}
	r, err := mirror.Mirror(t.Context(), newClient(t, up), s, reqs, mirror.Options{Platforms: []ocispec.Platform{pl}})
	if err != nil {
		t.Fatal(err)
	}
	for _, im := range r.Images {
		c.Images = append(c.Images, image.MirroredImage{Reference: image.Name{Reference: im.Reference}, Digest: im.Descriptor.Digest})
	}
	for _, name := range lacking {
		c.Images = append(c.Images, image.MirroredImage{Reference: image.ParseName(name), Missing: "404"})
	}
	files, err := s.WriteLayer(t.Context(), store.LayerOptions{}, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1024)) // an empty tar
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	layers := []image.Layer{files}
	c.Layers = []image.ConfigLayer{{Type: "COPY", Value: "etc ."}}
	if doc := r.Document(nil); doc != nil {
		l, err := s.WriteRegistryLayer(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
		c.Layers = append(c.Layers, image.ConfigLayer{Type: image.LayerTypeBase, Value: image.RegistryLayerValue})
	}
	d, err := s.WriteImage(t.Context(), c, layers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func commit(t *testing.T, s *store.Store, name string, d ocispec.Descriptor) {
	t.Helper()
	if err := s.Commit(t.Context(), []ref.Reference{parse(t, name)}, d); err != nil {
		t.Fatal(err)
	}
}

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	up, hub := newUpstream(t, registrytest.Image{Name: "app:1"}), newUpstream(t)
	from, to := storetest.New(t), storetest.New(t)
	d := write(t, from, up, "linux/amd64", []string{"app:1"}, nil)
	commit(t, from, "base:v1", d)
	c := newClient(t, hub)
	sent, err := transfer.Push(t.Context(), from, c, "base:v1", hub.Ref("team/base:v1"), transfer.PushOptions{})
	if err != nil || sent.Digest != d.Digest {
		t.Fatalf("Push = %v, %v; want %v", sent.Digest, err, d.Digest)
	}
	got, err := transfer.Pull(t.Context(), to, c, hub.Ref("team/base:v1"), remote.PullOptions{})
	if err != nil || got.Digest != d.Digest {
		t.Fatalf("Pull = %v, %v; want %v", got.Digest, err, d.Digest)
	}
	im, err := to.Image(t.Context(), hub.Ref("team/base:v1").String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := transfer.Verify(t.Context(), to, im.ID, transfer.VerifyOptions{})
	if err != nil || len(v.Faults) > 0 || len(v.Missing) > 0 || v.References != 1 {
		t.Errorf("Verify = %+v, %v", v, err)
	}
	if _, err := transfer.Push(t.Context(), from, c, "nothing:v1", hub.Ref("team/base:v2"), transfer.PushOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Push of an image that is not there: %v", err)
	}
}

// A pull by digest gives no name, also where the reference has a tag: the tag may
// mean another image.
func TestPullByDigest(t *testing.T) {
	t.Parallel()
	up, hub, s := newUpstream(t, registrytest.Image{Name: "app:1"}), newUpstream(t), storetest.New(t)
	d := write(t, s, up, "linux/amd64", []string{"app:1"}, nil)
	commit(t, s, "base:v1", d)
	c := newClient(t, hub)
	if _, err := transfer.Push(t.Context(), s, c, "base:v1", hub.Ref("base:v1"), transfer.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	to := storetest.New(t)
	from := hub.Ref("base:v1")
	from.Digest = d.Digest
	if _, err := transfer.Pull(t.Context(), to, c, from, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	im, err := to.Image(t.Context(), d.Digest.String(), nil)
	if err != nil || len(im.Names) > 0 {
		t.Errorf("names %v, %v; want none", im.Names, err)
	}
}

// An ordinary image is refused before one of its layers is asked for.
func TestPullForeign(t *testing.T) {
	t.Parallel()
	for _, platforms := range [][]string{{"linux/amd64"}, {"linux/amd64", "linux/arm64"}} {
		t.Run(fmt.Sprint(len(platforms)), func(t *testing.T) {
			t.Parallel()
			up, s := newUpstream(t, registrytest.Image{Name: "nginx:1", Platforms: platforms, Config: &ocispec.ImageConfig{Entrypoint: []string{"/nginx"}}}), storetest.New(t)
			_, err := transfer.Pull(t.Context(), s, newClient(t, up), up.Ref("nginx:1"), remote.PullOptions{})
			if !errors.Is(err, image.ErrForeign) {
				t.Fatalf("Pull: %v, want ErrForeign", err)
			}
			if n := up.Count(registrytest.Blob); n > 1 {
				t.Errorf("%d blobs asked for; want at most the config", n)
			}
			if all, err := s.Images(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("images %v, %v", all, err)
			}
		})
	}
}

func TestPushMirrored(t *testing.T) {
	t.Parallel()
	up, hub, s := newUpstream(t, registrytest.Image{Name: "app:1"}, registrytest.Image{Name: "lib/db:2"}), newUpstream(t), storetest.New(t)
	commit(t, s, "base:v1", write(t, s, up, "linux/amd64", []string{"app:1", "lib/db:2"}, []string{"quay.io/a/gone:1"}))
	to, err := mirror.ParsePrefix(hub.Host() + "/in")
	if err != nil {
		t.Fatal(err)
	}
	pushed, lacking, err := transfer.PushMirrored(t.Context(), s, newClient(t, hub), "base:v1", nil, to, transfer.PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pushed {
		got = append(got, p.Reference.Repository+p.Reference.Suffix()+" "+p.Digest.String())
	}
	slices.Sort(got)
	want := []string{
		"in/lib/db:2 " + up.Content("lib/db:2").Root.Digest.String(),
		"in/library/app:1 " + up.Content("app:1").Root.Digest.String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(lacking) > 0 { // it is listed as missing by the image itself
		t.Errorf("lacking %v", lacking)
	}
	for _, p := range pushed {
		if _, _, err := newClient(t, hub).Manifest(t.Context(), p.Reference); err != nil {
			t.Error(err)
		}
	}
}

func TestVerifyMissing(t *testing.T) {
	t.Parallel()
	up, s := newUpstream(t, registrytest.Image{Name: "app:1"}), storetest.New(t)
	commit(t, s, "base:v1", write(t, s, up, "linux/amd64", []string{"app:1"}, []string{"quay.io/a/gone:1"}))
	v, err := transfer.Verify(t.Context(), s, "base:v1", transfer.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Missing) != 1 || v.Missing[0].Error() != "linux/amd64: quay.io/a/gone:1: 404" {
		t.Errorf("missing %v", v.Missing)
	}
}

// Mirrored blobs come again from their source, all others from a registry that
// has the ClusterImage.
func TestRepair(t *testing.T) {
	t.Parallel()
	up, hub, s := newUpstream(t, registrytest.Image{Name: "app:1"}), newUpstream(t), storetest.New(t)
	name := hub.Ref("base:v1").String()
	d := write(t, s, up, "linux/amd64", []string{"app:1"}, nil)
	commit(t, s, name, d)
	c := newClient(t, up, hub)
	if _, err := transfer.Push(t.Context(), s, c, name, hub.Ref("base:v1"), transfer.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	im, err := s.Image(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	app := up.Content("app:1")
	damaged := []digest.Digest{app.Root.Digest, im.Manifest.Layers[0].Digest}
	for d := range app.Blobs {
		if d != app.Root.Digest {
			damaged = append(damaged, d)
		}
	}
	for _, d := range damaged {
		damage(t, s.BlobPath(d))
	}
	up.ResetRequests()
	v, err := transfer.Verify(t.Context(), s, name, transfer.VerifyOptions{})
	if err != nil || len(v.Broken()) < len(damaged) {
		t.Fatalf("Verify = %v, %v; want %d broken blobs", v.Faults, err, len(damaged))
	}
	v, err = transfer.Verify(t.Context(), s, name, transfer.VerifyOptions{Repair: c})
	if err != nil || len(v.Broken()) > 0 {
		t.Fatalf("repair: %v, %v", v.Broken(), err)
	}
	if up.Count(registrytest.Manifest) == 0 || up.Count(registrytest.Blob) == 0 {
		t.Error("the source of the mirrored image was not asked")
	}
	v, err = transfer.Verify(t.Context(), s, name, transfer.VerifyOptions{})
	if err != nil || len(v.Faults) > 0 || len(v.Missing) > 0 {
		t.Errorf("after the repair: %v, %v, %v", v.Faults, v.Missing, err)
	}
}

// A repair that no registry can help with says so for each blob.
func TestRepairFails(t *testing.T) {
	t.Parallel()
	up, s := newUpstream(t, registrytest.Image{Name: "app:1"}), storetest.New(t)
	commit(t, s, "base:v1", write(t, s, up, "linux/amd64", []string{"app:1"}, nil))
	d := up.Content("app:1").Root.Digest
	damage(t, s.BlobPath(d))
	up.Inject(registrytest.Fault{Do: registrytest.Status(404)})
	v, err := transfer.Verify(t.Context(), s, "base:v1", transfer.VerifyOptions{Repair: newClient(t, up)})
	if err != nil || len(v.Broken()) == 0 {
		t.Errorf("Verify = %+v, %v; want broken content", v, err)
	}
}

// damage replaces a blob's bytes; hard links to the blob keep the old ones.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", len(b))), 0o444); err != nil {
		t.Fatal(err)
	}
}
