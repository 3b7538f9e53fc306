package build

import (
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/rootfs"
)

// countLayers warns of an image with more layers than a mount takes: it is whole, and
// sealer mount and RUN of an image on it fail.
func (b *builder) countLayers(platform string, layers []image.Layer) {
	seen := map[digest.Digest]bool{} // a mount needs each once
	for _, l := range layers {
		seen[l.ID] = true
	}
	if n := len(seen); n > rootfs.MaxLayers {
		b.warn(fmt.Sprintf("%s: the image has %d layers, and a mount takes %d: sealer mount and RUN will refuse it; join instructions, so that there are fewer", platform, n, rootfs.MaxLayers))
	}
}
