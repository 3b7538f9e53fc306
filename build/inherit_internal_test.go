package build

import (
	"testing"

	"github.com/clusterimage/sealer/image/imagetest"
	"github.com/clusterimage/sealer/store"
)

// Every field of a base's config goes into the image built on it, or is left out
// for a reason.
func TestInheritTakesEveryField(t *testing.T) {
	t.Parallel()
	base := imagetest.Filled()
	pb := &platformBuild{b: &builder{}, base: &store.Image{Config: base}}
	if err := pb.inherit(); err != nil {
		t.Fatal(err)
	}
	for _, fault := range imagetest.Lost(pb.config,
		"Created", "SealerVersion", "Platform", // of this build
		"Type", // decided when the applications are known: finishApps
	) {
		t.Error(fault)
	}
}
