package remote_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

// A gate is a sink that lets blobs in when as many wait as may be under way.
type gate struct {
	remote.Sink
	jobs int
	open chan struct{}

	mu            sync.Mutex
	order         []digest.Digest
	running, most int
}

func (g *gate) PutBlob(ctx context.Context, d ocispec.Descriptor, write func(io.Writer) error) error {
	return g.Sink.PutBlob(ctx, d, func(w io.Writer) error {
		g.mu.Lock()
		g.order = append(g.order, d.Digest)
		g.running++
		g.most = max(g.most, g.running)
		if len(g.order) == g.jobs {
			close(g.open)
		}
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.running--
		}()
		<-g.open
		return write(w)
	})
}

// TestFetchLimit: one limit for all blobs of all registries, large and small;
// the largest comes first, and one worker sees to the small ones meanwhile.
func TestFetchLimit(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(jobs, " jobs"), func(t *testing.T) {
			t.Parallel()
			var ups []*registrytest.Upstream
			for i := range 2 {
				var layers []registrytest.Layer
				for n := range 6 {
					layers = append(layers, registrytest.Layer{Name: fmt.Sprint("layer", i, n), Size: (1 + n%3*(150+n+i)) << 10})
				}
				up := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "one:1", Layers: layers}}})
				ups = append(ups, up)
			}
			o := options(t, ups...)
			o.Jobs = jobs
			c := newClient(t, o)
			s := storetest.New(t)
			var wanted []remote.Wanted
			for _, up := range ups {
				content, err := c.Walk(t.Context(), s, up.Ref("one:1"), remote.WalkOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range content.Blobs {
					wanted = append(wanted, remote.Wanted{Descriptor: b, From: []remote.Origin{{Client: c, Image: up.Ref("one:1")}}})
				}
			}
			g := &gate{Sink: s, open: make(chan struct{}), jobs: jobs}
			if failed := remote.Fetch(t.Context(), g, wanted, jobs); len(failed) > 0 {
				t.Fatal(failed)
			}
			if g.most != jobs || len(g.order) != len(wanted) {
				t.Errorf("%d of %d blobs were asked for, %d at a time", len(g.order), len(wanted), g.most)
			}
			slices.SortFunc(wanted, func(a, b remote.Wanted) int { return cmp.Compare(b.Size, a.Size) })
			first, last := wanted[0].Digest, wanted[len(wanted)-1].Digest
			switch jobs {
			case 1:
				if !slices.EqualFunc(wanted, g.order, func(a remote.Wanted, b digest.Digest) bool { return a.Digest == b }) {
					t.Errorf("asked for in the order %v, want the largest first", g.order)
				}
			default:
				if at := g.order[:jobs]; !slices.Contains(at, first) || !slices.Contains(at, last) {
					t.Errorf("asked for first: %v, want the largest %s and the smallest %s among them", at, first, last)
				}
			}
		})
	}
}
