package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Areas are in proportion to sizes, fill the rectangle, and do not overlap.
func TestSquarify(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := make([]float64, 1+rnd.IntN(60))
		total := 0.0
		for i := range sizes {
			sizes[i] = 1 + math.Pow(rnd.Float64(), 4)*1e9
		}
		slices.SortFunc(sizes, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
		for _, s := range sizes {
			total += s
		}
		outer := rect{10, 20, 100 + rnd.Float64()*1000, 100 + rnd.Float64()*500}
		got := squarify(sizes, outer)
		if len(got) != len(sizes) {
			t.Fatalf("seed %d: %d rectangles of %d", seed, len(got), len(sizes))
		}
		const slack = 1e-6
		for i, r := range got {
			if want := sizes[i] / total * outer.w * outer.h; math.Abs(r.w*r.h-want) > slack*want+1e-3 {
				t.Errorf("seed %d: area %d is %g, want %g", seed, i, r.w*r.h, want)
			}
			if r.x < outer.x-slack || r.y < outer.y-slack || r.x+r.w > outer.x+outer.w+slack || r.y+r.h > outer.y+outer.h+slack {
				t.Errorf("seed %d: %d sticks out: %+v of %+v", seed, i, r, outer)
			}
			for j, o := range got[:i] {
				if min(r.x+r.w, o.x+o.w)-max(r.x, o.x) > slack && min(r.y+r.h, o.y+o.h)-max(r.y, o.y) > slack {
					t.Errorf("seed %d: %d and %d overlap", seed, i, j)
				}
			}
		}
	}
	if got := squarify(nil, rect{0, 0, 1, 1}); len(got) != 0 {
		t.Error(got)
	}
}

// The example of the paper: sizes 6, 6, 4, 3, 2, 2, 1 in 6 by 4.
func TestSquarifyPaper(t *testing.T) {
	t.Parallel()
	got := squarify([]float64{6, 6, 4, 3, 2, 2, 1}, rect{0, 0, 6, 4})
	if want := (rect{0, 0, 3, 2}); got[0] != want {
		t.Errorf("first %+v", got[0])
	}
	if want := (rect{0, 2, 3, 2}); got[1] != want {
		t.Errorf("second %+v", got[1])
	}
}

func TestTreemapFoldsSmallTiles(t *testing.T) {
	t.Parallel()
	g := group{name: "g", class: "c0", tiles: []tile{{"big", "big", 1_000_000_000}}}
	for i := range 5000 {
		g.tiles = append(g.tiles, tile{fmt.Sprint(i), fmt.Sprint(i), 10})
	}
	got := treemap([]group{g, {name: "empty"}}, 1200, 500)
	if len(got) > 4 {
		t.Errorf("%d boxes", len(got))
	}
	if !slices.ContainsFunc(got, func(b box) bool { return b.Title == "5000 smaller: 50.0 kB" }) {
		t.Errorf("%+v", got)
	}
}
