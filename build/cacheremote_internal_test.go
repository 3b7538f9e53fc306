package build

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

// A cache in a registry has as many steps as its manifest and its config take.
func TestFitting(t *testing.T) {
	t.Parallel()
	used := map[string]stepRecord{}
	for i := range 100 {
		d := digest.FromString(fmt.Sprint(i))
		used[d.String()] = stepRecord{Layer: image.Layer{ID: d, Descriptors: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: d, Size: 9}}}}
	}
	used["empty"] = stepRecord{Empty: true}
	size := func(steps map[string]stepRecord) (manifest, config int) {
		var layers []ocispec.Descriptor
		for _, s := range steps {
			layers = append(layers, s.Layer.Descriptors...)
		}
		m, err := json.Marshal(layers)
		if err != nil {
			t.Fatal(err)
		}
		c, err := json.Marshal(sharedCache{Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		return len(m), len(c)
	}
	m, c := size(used)
	for _, limit := range []struct{ manifest, config, least, most int }{
		{2 * m, 2 * c, 101, 101},
		{m / 2, 2 * c, 45, 55},
		{2 * m, c / 2, 45, 55},
		{10, 2 * c, 1, 1}, // the one without a layer
		{10, 10, 0, 0},
	} {
		steps, err := fitting(used, limit.manifest, limit.config)
		if err != nil || len(steps) < limit.least || len(steps) > limit.most {
			t.Errorf("%+v: %d steps, %v", limit, len(steps), err)
		}
		if m, c := size(steps); m > limit.manifest+len("null") || c > limit.config+len(`{"steps":{}}`) {
			t.Errorf("%+v: the manifest takes %d bytes, the config %d", limit, m, c)
		}
	}
}
