package transfer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry"
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

func TestServiceAndHeld(t *testing.T) {
	t.Parallel()
	up := newUpstream(t,
		registrytest.Image{Name: "app:1", Platforms: []string{"linux/amd64", "linux/arm64"}},
		registrytest.Image{Name: "lib/db:2"})
	s := storetest.New(t)
	amd64 := write(t, s, up, "linux/amd64", []string{"app:1", "lib/db:2"}, nil)
	arm64 := write(t, s, up, "linux/arm64", []string{"app:1"}, nil)
	both, err := s.WriteIndex(t.Context(), []ocispec.Descriptor{amd64, arm64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, "both:v1", both)
	commit(t, s, "amd:v1", amd64)

	for _, p := range []string{"", "linux/arm64", "linux/amd64"} {
		var want *ocispec.Platform
		if p != "" {
			pl, err := platform.Parse(p)
			if err != nil {
				t.Fatal(err)
			}
			want = &pl
		}
		images, err := transfer.Images(t.Context(), s, "both:v1", want)
		if n := map[string]int{"": 2}[p]; err != nil || len(images) != max(n, 1) {
			t.Errorf("Images(%q) = %d images, %v", p, len(images), err)
		}
		held, err := transfer.Held(t.Context(), s, "both:v1", want)
		if n := map[string]int{"": 3, "linux/amd64": 2, "linux/arm64": 1}[p]; err != nil || len(held.Images) != n {
			t.Errorf("Held(%q) = %v, %v; want %d images", p, held.Images, err, n)
		}
	}
	v, err := transfer.NewService(t.Context(), s, transfer.Selection{Names: []string{"amd:v1", "both:v1"}}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if got := v.PrivateRegistries(); len(got) != 3 || got[0] != "sea.hub:5000" {
		t.Errorf("private registries %v", got)
	}
	if _, err := transfer.NewService(t.Context(), s, transfer.Selection{Names: []string{"none:v1"}}, registry.Options{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a service of an image that is not there: %v", err)
	}
}

// The registry trees in the files of an image of sealer 0.9 are pushed and
// described as registry layers are.
func TestHeldInFiles(t *testing.T) {
	t.Parallel()
	plain, err := registrytest.PlainClusterImage()
	if err != nil {
		t.Fatal(err)
	}
	up, hub, s := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{plain}, Any: true}), newUpstream(t), storetest.New(t)
	from := up.Ref("sealerio/kubernetes:v1-22-15")
	if _, err := transfer.Pull(t.Context(), s, newClient(t, up), from, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	amd64, err := platform.Parse("linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	images, err := transfer.Images(t.Context(), s, from.String(), &amd64)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := transfer.HeldInFiles(s, images[0])
	if err != nil {
		t.Fatal(err)
	}
	var got []tree.Tag
	for _, r := range doc.Repositories {
		for _, tag := range r.Tags {
			got = append(got, tree.Tag{Name: r.Name + ":" + tag.Name, Sources: tag.Sources})
		}
	}
	want := []tree.Tag{
		{Name: "calico/node:v3.27.0", Sources: []ref.Reference{parse(t, "docker.io/calico/node:v3.27.0")}},
		{Name: "pause:3.9", Sources: []ref.Reference{parse(t, "registry.k8s.io/pause:3.9")}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	to, err := mirror.ParsePrefix(hub.Host())
	if err != nil {
		t.Fatal(err)
	}
	pushed, lacking, err := transfer.PushMirrored(t.Context(), s, newClient(t, hub), from.String(), &amd64, to, transfer.PushOptions{})
	if err != nil || len(pushed) != 2 || len(lacking) > 0 {
		t.Errorf("PushMirrored = %v, %v, %v; want the two images in the files", pushed, lacking, err)
	}
	commit(t, s, "none:v1", write(t, s, newUpstream(t), "linux/amd64", nil, nil))
	none, err := s.Image(t.Context(), "none:v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := transfer.HeldInFiles(s, none); err != nil || doc != nil {
		t.Errorf("HeldInFiles of an image without = %v, %v", doc, err)
	}
}
