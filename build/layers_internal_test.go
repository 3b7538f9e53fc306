package build

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/rootfs"
)

// The limit of a mount is told when the image is built, and a repeated layer counts
// once.
func TestCountLayers(t *testing.T) {
	t.Parallel()
	var layers []image.Layer
	for i := range rootfs.MaxLayers {
		layers = append(layers, image.Layer{ID: digest.FromString(fmt.Sprint(i))})
	}
	b := &builder{warned: map[string]bool{}, result: &Result{}}
	b.countLayers("linux/amd64", append(layers, layers[0]))
	if len(b.result.Warnings) != 0 {
		t.Errorf("%q", b.result.Warnings)
	}
	b.countLayers("linux/amd64", append(layers, image.Layer{ID: digest.FromString("one more")}))
	if w := b.result.Warnings; len(w) != 1 || !strings.Contains(w[0], "501 layers, and a mount takes 500") {
		t.Errorf("%q", w)
	}
}
