package registry_test

import (
	"encoding/json"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// writeLayer makes a registry layer in a directory of the test.
func writeLayer(t testing.TB, naming tree.Naming, images []registrytest.Image, below ...*registrytest.DiskLayer) *registrytest.DiskLayer {
	t.Helper()
	l, err := registrytest.WriteLayer(t.TempDir(), naming, images, below...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// manifest decodes the first manifest of c.
func manifest(t testing.TB, c *registrytest.Content) ocispec.Manifest {
	t.Helper()
	var m ocispec.Manifest
	if err := json.Unmarshal(c.Blobs[c.Manifests[0].Digest], &m); err != nil {
		t.Fatal(err)
	}
	return m
}
