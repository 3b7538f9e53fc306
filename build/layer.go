package build

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/clusterimage/sealer/store"
)

// writeLayer makes the rootfs layer of entries.
func (b *builder) writeLayer(ctx context.Context, entries []entry) (store.Layer, error) {
	return b.s.WriteLayer(ctx, store.LayerOptions{Compression: b.o.Compression}, func(w io.Writer) error {
		return writeTar(w, entries, b.when, nil)
	})
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
