package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/clusterimage/sealer/perf/figure"
)

// A curve is the points of one growth: figures of one name and unit.
type curve struct {
	Name, Unit, XUnit string
	points            []point
}

type point struct{ x, y float64 }

// curves gathers the figures that are points, in the order in which names come.
// Of two values at one size the later one counts.
func curves(figures []figure.Figure) []curve {
	var out []curve
	for _, f := range figures {
		if f.X == 0 {
			continue
		}
		_, name := group(f.Name)
		i := slices.IndexFunc(out, func(c curve) bool { return c.Name == name && c.Unit == f.Unit && c.XUnit == f.XUnit })
		if i < 0 {
			i = len(out)
			out = append(out, curve{Name: name, Unit: f.Unit, XUnit: f.XUnit})
		}
		c := &out[i]
		if j := slices.IndexFunc(c.points, func(p point) bool { return p.x == f.X }); j >= 0 {
			c.points[j].y = f.Value
			continue
		}
		c.points = append(c.points, point{f.X, f.Value})
	}
	for _, c := range out {
		slices.SortFunc(c.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	}
	return out
}

// at returns the value at a size.
func (c curve) at(x float64) (float64, bool) {
	i := slices.IndexFunc(c.points, func(p point) bool { return p.x == x })
	if i < 0 {
		return 0, false
	}
	return c.points[i].y, true
}

// slope fits y = a * x^b by least squares on the logarithms of all points whose
// values are above 0, and returns b: 1 is in proportion to the size, 0 is
// constant. It needs two such points.
func (c curve) slope() (float64, bool) { return slope(c.points) }

// end is the slope between the two largest sizes, where the constant cost of a
// start weighs least.
func (c curve) end() (float64, bool) {
	if len(c.points) < 2 {
		return 0, false
	}
	return slope(c.points[len(c.points)-2:])
}

func slope(points []point) (float64, bool) {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.x <= 0 || p.y <= 0 {
			continue
		}
		x, y := math.Log(p.x), math.Log(p.y)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	spread := n*sxx - sx*sx
	if n < 2 || spread == 0 {
		return 0, false
	}
	return (n*sxy - sx*sy) / spread, true
}

// marginal returns what one more of the size costs between the two largest
// sizes.
func (c curve) marginal() (float64, bool) {
	if len(c.points) < 2 {
		return 0, false
	}
	a, b := c.points[len(c.points)-2], c.points[len(c.points)-1]
	return (b.y - a.y) / (b.x - a.x), true
}
