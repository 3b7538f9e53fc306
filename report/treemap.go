package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A group of tiles in a treemap. Areas are in proportion to sizes.
type group struct {
	name  string
	class string // of CSS, for its colour
	tiles []tile
}

type tile struct {
	label, title string
	size         int64
}

func (g group) size() (n int64) {
	for _, t := range g.tiles {
		n += t.size
	}
	return n
}

// A box is a drawn rectangle: of a group, or of a tile. Coordinates are in the units
// of the drawing.
type box struct {
	X, Y, W, H float64
	Class      string
	Title      string
	Lines      []string // that fit inside
	Head       bool     // of a group
}

const (
	headHeight = 16.0 // of a group's name
	lineHeight = 13.0
	charWidth  = 6.4 // of the 11 px font, at most
	minArea    = 40  // of a tile; smaller ones are drawn together
	gutter     = 1.5
)

// treemap lays groups out in width by height.
func treemap(groups []group, width, height float64) []box {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return g.size() <= 0 })
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.size(), a.size()) })
	sizes := make([]float64, len(groups))
	total := 0.0
	for i, g := range groups {
		sizes[i] = float64(g.size())
		total += sizes[i]
	}
	var out []box
	for i, r := range squarify(sizes, rect{0, 0, width, height}) {
		out = append(out, groups[i].draw(r.inset(gutter), width*height/total)...)
	}
	return out
}

// draw returns the boxes of a group inside r; scale is area for each byte.
func (g group) draw(r rect, scale float64) []box {
	head := r.box(g.class, fmt.Sprintf("%s: %s", g.name, size(g.size())))
	head.Head = true
	out := []box{head}
	inner := r
	if r.w > 50 && r.h > 3*headHeight {
		out[0].Lines = []string{clip(g.name+"  "+size(g.size()), r.w)}
		inner.y, inner.h = inner.y+headHeight, inner.h-headHeight
	}
	tiles := g.fold(scale)
	sizes := make([]float64, len(tiles))
	for i, t := range tiles {
		sizes[i] = float64(t.size)
	}
	for i, r := range squarify(sizes, inner) {
		r = r.inset(0.75)
		b := r.box(g.class, tiles[i].title)
		if r.w > 5*charWidth && r.h > lineHeight+3 {
			b.Lines = []string{clip(tiles[i].label, r.w)}
			if r.h > 2*lineHeight+3 {
				b.Lines = append(b.Lines, clip(size(tiles[i].size), r.w))
			}
		}
		out = append(out, b)
	}
	return out
}

// fold returns the tiles, the largest first, with those too small to be seen as
// one.
func (g group) fold(scale float64) []tile {
	tiles := slices.DeleteFunc(slices.Clone(g.tiles), func(t tile) bool { return t.size <= 0 })
	slices.SortStableFunc(tiles, func(a, b tile) int { return cmp.Compare(b.size, a.size) })
	n := slices.IndexFunc(tiles, func(t tile) bool { return float64(t.size)*scale < minArea })
	if n < 0 || n == len(tiles)-1 {
		return tiles
	}
	rest := tile{label: fmt.Sprintf("%d smaller", len(tiles)-n)}
	for _, t := range tiles[n:] {
		rest.size += t.size
	}
	rest.title = fmt.Sprintf("%s: %s", rest.label, size(rest.size))
	tiles = append(tiles[:n], rest)
	slices.SortStableFunc(tiles, func(a, b tile) int { return cmp.Compare(b.size, a.size) })
	return tiles
}

// clip shortens a label to a width.
func clip(s string, width float64) string {
	most := int((width - 6) / charWidth)
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:max(most-1, 0)]) + "…"
}

type rect struct{ x, y, w, h float64 }

func (r rect) inset(by float64) rect {
	by = min(by, r.w/4, r.h/4)
	return rect{r.x + by, r.y + by, r.w - 2*by, r.h - 2*by}
}

func (r rect) box(class, title string) box {
	round := func(f float64) float64 { return math.Round(f*10) / 10 }
	return box{X: round(r.x), Y: round(r.y), W: round(r.w), H: round(r.h), Class: class, Title: title}
}

// squarify divides r among sizes, which descend: "Squarified Treemaps", Bruls,
// Huizing and van Wijk, 2000. A row is closed when one more tile would make its
// worst shape longer.
func squarify(sizes []float64, r rect) []rect {
	total := 0.0
	for _, s := range sizes {
		total += s
	}
	if total <= 0 || r.w <= 0 || r.h <= 0 {
		return make([]rect, len(sizes))
	}
	scale := r.w * r.h / total
	out := make([]rect, 0, len(sizes))
	for len(sizes) > 0 {
		side := min(r.w, r.h)
		n, sum := 1, sizes[0]*scale
		for n < len(sizes) {
			next := sum + sizes[n]*scale
			if worst(sizes[0]*scale, sizes[n]*scale, next, side) > worst(sizes[0]*scale, sizes[n-1]*scale, sum, side) {
				break
			}
			n, sum = n+1, next
		}
		row, rest := r.cut(sum)
		along := 0.0
		for _, s := range sizes[:n] {
			out = append(out, row.part(along, s*scale/sum, r.w >= r.h))
			along += s * scale / sum
		}
		sizes, r = sizes[n:], rest
	}
	return out
}

// worst is the longest side to the shortest among the tiles of a row with the
// area sum along side, of which most and least are the extremes.
func worst(most, least, sum, side float64) float64 {
	return max(side*side*most/(sum*sum), sum*sum/(side*side*least))
}

// cut takes a row of the area off r, along its shorter side.
func (r rect) cut(area float64) (row, rest rect) {
	if r.w >= r.h {
		w := min(area/r.h, r.w)
		return rect{r.x, r.y, w, r.h}, rect{r.x + w, r.y, r.w - w, r.h}
	}
	h := min(area/r.w, r.h)
	return rect{r.x, r.y, r.w, h}, rect{r.x, r.y + h, r.w, r.h - h}
}

// part is the share of a row that begins at the fraction from.
func (r rect) part(from, share float64, column bool) rect {
	if column {
		return rect{r.x, r.y + from*r.h, r.w, share * r.h}
	}
	return rect{r.x + from*r.w, r.y, share * r.w, r.h}
}

// colours is the number of colours for registries.
const colours = 6

// groups are the blobs of the image: of each container image its own, by registry;
// those that several share; the files of the layers.
func (i *Image) groups() []group {
	var out []group
	for n, r := range i.Registries {
		g := group{name: r.Name, class: fmt.Sprintf("c%d", n%colours)}
		for _, m := range i.Mirrored {
			if m.Registry == r.Name {
				title := fmt.Sprintf("%s: %s of its own, %s with what it shares", m.Reference, size(m.Own), size(m.Size))
				g.tiles = append(g.tiles, tile{short(m.Reference), title, m.Own})
			}
		}
		out = append(out, g)
	}
	shared := group{name: "shared by several images", class: "shared"}
	for _, s := range i.Shared {
		names := make([]string, min(len(s.Images), 4))
		for n := range names {
			names[n] = short(s.Images[n])
		}
		title := fmt.Sprintf("%s shared by %d images: %s", size(s.Size), len(s.Images), strings.Join(names, ", "))
		if len(s.Images) > len(names) {
			title += ", …"
		}
		shared.tiles = append(shared.tiles, tile{fmt.Sprintf("%d images", len(s.Images)), title, s.Size})
	}
	files := group{name: "files", class: "files"}
	for _, l := range i.Layers {
		if !l.Registry {
			files.tiles = append(files.tiles, tile{l.Type + " " + l.Value, fmt.Sprintf("layer %s %s: %s", l.Type, cut(l.Value, 200), size(l.Size)), l.Size})
		}
	}
	return append(out, shared, files)
}

// short is the last part of a reference.
func short(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name[strings.LastIndexByte(name, '/')+1:]
}
