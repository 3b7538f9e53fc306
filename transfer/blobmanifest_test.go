package transfer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

// newSplitting returns a store that lists mirrored blobs beyond a few in blob
// manifests.
func newSplitting(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{Limits: store.Limits{Manifest: 2000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A registry that lost a blob manifest, or answers with other bytes, gives no
// image: nothing of it is in the store.
func TestPullLacksBlobManifest(t *testing.T) {
	t.Parallel()
	v := newTravel(t)
	near := newSplitting(t)
	im := build(t, near, nil, 0, 8, 0, "team/q:v1")
	v.push(near, im, "team/q:v1", transfer.PushOptions{})
	apart := im.Config.BlobManifests()
	if len(apart) < 2 {
		t.Fatalf("%d blob manifests", len(apart))
	}
	for name, tc := range map[string]struct {
		do    registrytest.Action
		cause error
	}{
		"lost":  {registrytest.Status(404), remote.ErrNotFound},
		"other": {registrytest.Corrupt(), remote.ErrDigest},
	} {
		for _, all := range []bool{true, false} {
			v.up.Inject(registrytest.Fault{On: registrytest.Manifest, Reference: apart[1].Digest.String(), Do: tc.do})
			far := storetest.New(t)
			o := remote.PullOptions{}
			if !all {
				o.Platforms = []ocispec.Platform{platform.Default()}
			}
			_, err := transfer.Pull(t.Context(), far, newClient(t, v.up), v.up.Ref("team/q:v1"), o)
			if !errors.Is(err, tc.cause) || !strings.Contains(err.Error(), apart[1].Digest.String()) {
				t.Errorf("%s, all platforms %v: %v", name, all, err)
			}
			if inv, err := far.Inventory(t.Context(), true); err != nil || len(inv.Names)+len(inv.Blobs) > 0 {
				t.Errorf("%s: the store has %v, %v", name, inv, err)
			}
			if has, _ := far.HasBlob(t.Context(), im.Manifest.Config.Digest); has {
				t.Errorf("%s: the config is in the store", name)
			}
			v.up.ClearFaults()
		}
	}
}

// One platform is pulled with its own blob manifests alone, and a manifest by its
// digest with those that it needs; which cannot be pushed without their index.
func TestPullNeedsOfBlobManifests(t *testing.T) {
	t.Parallel()
	v := newTravel(t)
	near := newSplitting(t)
	amd := build(t, near, nil, 0, 8, 0, "team/amd:v1")
	arm := build(t, near, nil, 8, 16, 0, "team/arm:v1")
	both, err := near.WriteTop(t.Context(), []ocispec.Descriptor{as(amd, "linux/amd64"), as(arm, "linux/arm64")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := near.Commit(t.Context(), nil, both); err != nil {
		t.Fatal(err)
	}
	im, err := near.Image(t.Context(), both.Digest.Encoded(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v.push(near, im, "team/both:v1", transfer.PushOptions{})

	far := storetest.New(t)
	p, err := platform.Parse("linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	from := v.up.Ref("team/both:v1")
	if _, err := transfer.Pull(t.Context(), far, newClient(t, v.up), from, remote.PullOptions{Platforms: []ocispec.Platform{p}}); err != nil {
		t.Fatal(err)
	}
	for n, of := range []*store.Image{amd, arm} {
		for _, d := range of.Descriptors()[1:] {
			if has, _ := far.HasBlob(t.Context(), d.Digest); has != (n == 0) && d.Size > 2 { // both have the config of blob manifests
				t.Errorf("blob %s of image %d is there: %v", d.Digest, n, has)
			}
		}
	}
	if got, err := transfer.Verify(t.Context(), far, from.String(), transfer.VerifyOptions{}); err != nil || len(got.Faults)+len(got.Missing) > 0 {
		t.Errorf("%+v, %v", got, err)
	}

	third := storetest.New(t)
	from.Tag, from.Digest = "", amd.ManifestDescriptor.Digest
	d, err := transfer.Pull(t.Context(), third, newClient(t, v.up), from, remote.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := third.Image(t.Context(), d.Digest.Encoded(), nil); err != nil {
		t.Error(err)
	}
	_, err = transfer.Push(t.Context(), third, newClient(t, v.up), d.Digest.Encoded(), v.up.Ref("team/main:v1"), transfer.PushOptions{})
	if err == nil || !strings.Contains(err.Error(), "is in no index") {
		t.Errorf("push without the index: %v", err)
	}
}

// as is the manifest's entry in an index, for a platform.
func as(im *store.Image, p string) ocispec.Descriptor {
	d := im.ManifestDescriptor
	parsed, err := platform.Parse(p)
	if err != nil {
		panic(fmt.Sprint("platform: ", err))
	}
	d.Platform = &parsed
	return d
}
