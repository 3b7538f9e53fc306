package cli

import (
	"testing"

	"github.com/clusterimage/sealer/image/imagetest"
	"github.com/clusterimage/sealer/store"
)

// inspect prints every field of a config.
func TestInspectPrintsEveryField(t *testing.T) {
	t.Parallel()
	for _, fault := range imagetest.Lost(inspectImage("a", &store.Image{Config: imagetest.Filled()})) {
		t.Error(fault)
	}
}
