package store

import (
	"testing"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/image/imagetest"
)

// Every field of a config goes into the merged image, or is left out for a
// reason.
func TestMergeTakesEveryField(t *testing.T) {
	t.Parallel()
	c := imagetest.Filled()
	m := &merger{tags: map[string]tagged{}}
	if err := m.add("a", &Image{Config: c, Layers: make([]image.Layer, len(c.Layers))}); err != nil {
		t.Fatal(err)
	}
	for _, fault := range imagetest.Lost(m.config, "Created", "SealerVersion", "Platform") { // of the merge
		t.Error(fault)
	}
}
