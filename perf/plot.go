package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The geometry of a plot, in pixels: the labels of the lines stand to the right.
const (
	plotWidth, plotHeight = 760, 400
	plotLeft, plotRight   = 70, 540
	plotTop, plotBottom   = 44, 350
	labelHeight           = 17
	mostLines             = 9
)

// style has the colours of light and dark pages: an SVG that stands in an <img>
// follows the reader's setting. Lines differ by colour and by mark.
const style = `<style>
 .back{fill:#fff} text{font:13px system-ui,sans-serif;fill:#1f2328} .title{font-weight:600;font-size:15px} .small{font-size:12px;fill:#59636e}
 .grid{stroke:#d1d9e0;stroke-width:1} .line{fill:none;stroke-width:2}
 .c0{--c:#0969da} .c1{--c:#b35900} .c2{--c:#1a7f37} .c3{--c:#8250df} .c4{--c:#cf222e} .c5{--c:#0b7285} .c6{--c:#6e5b00} .c7{--c:#bf3989} .c8{--c:#57606a}
 .line,.lead{stroke:var(--c)} .mark{fill:var(--c)} .lead{stroke-width:1;opacity:.5}
 @media (prefers-color-scheme: dark){
 .back{fill:#0d1117} text{fill:#f0f6fc} .small{fill:#9198a1} .grid{stroke:#30363d}
 .c0{--c:#58a6ff} .c1{--c:#f0883e} .c2{--c:#3fb950} .c3{--c:#bc8cff} .c4{--c:#ff7b72} .c5{--c:#39c5cf} .c6{--c:#d4b106} .c7{--c:#f778ba} .c8{--c:#9198a1}}
</style>
`

// An axis maps the logarithm of a value to pixels.
type axis struct{ low, high, from, to float64 }

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are 1, 10, 100 …; also 2 and 5 of each where that is few lines.
func (a axis) ticks() []float64 {
	steps := []float64{1, 2, 5}
	if a.high-a.low > 2.5 {
		steps = steps[:1]
	}
	var out []float64
	for e := math.Floor(a.low); e <= math.Ceil(a.high); e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); math.Log10(v) >= a.low-1e-9 && math.Log10(v) <= a.high+1e-9 {
				out = append(out, v)
			}
		}
	}
	return out
}

// axisFor spans values with a little room, and at least half a decade.
func axisFor(values []float64, from, to float64) axis {
	low, high := math.Log10(slices.Min(values)), math.Log10(slices.Max(values))
	if room := 0.7 - (high - low); room > 0 {
		low, high = low-room/2, high+room/2
	}
	room := (high - low) * 0.06
	return axis{low - room, high + room, from, to}
}

// plot draws curves of one unit over one size, both on logarithmic axes. It
// returns "" where no curve has two points above 0.
func plot(title, xUnit, unit string, cs []curve) string {
	var xs, ys []float64
	var shown []curve
	for _, c := range cs {
		c.points = slices.DeleteFunc(slices.Clone(c.points), func(p point) bool { return p.y <= 0 })
		if len(c.points) < 2 || len(shown) == mostLines {
			continue
		}
		shown = append(shown, c)
		for _, p := range c.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	if len(shown) == 0 {
		return ""
	}
	x, y := axisFor(xs, plotLeft, plotRight), axisFor(ys, plotBottom, plotTop)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-labelledby=\"t d\">\n", plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", html.EscapeString(title), html.EscapeString(describe(shown)), style, plotWidth, plotHeight)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"22\">%s</text>\n", 12, html.EscapeString(title))
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"small\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x.at(v), plotTop, x.at(v), plotBottom, x.at(v), plotBottom+18, number(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plotLeft, y.at(v), plotRight, y.at(v), plotLeft-8, y.at(v)+4, number(v))
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (plotLeft+plotRight)/2, plotBottom+40, html.EscapeString(xUnit))
	fmt.Fprintf(&b, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (plotTop+plotBottom)/2, html.EscapeString(unit))
	drawLines(&b, x, y, shown)
	b.WriteString("</svg>\n")
	return b.String()
}

func drawLines(b *strings.Builder, x, y axis, shown []curve) {
	ends := labels(y, shown)
	for i, c := range shown {
		fmt.Fprintf(b, "<g class=\"c%d\"><polyline class=\"line\" points=\"", i)
		for _, p := range c.points {
			fmt.Fprintf(b, "%.1f,%.1f ", x.at(p.x), y.at(p.y))
		}
		b.WriteString("\"/>")
		for _, p := range c.points {
			fmt.Fprintf(b, "<path class=\"mark\" d=\"%s\"/>", mark(i, x.at(p.x), y.at(p.y)))
		}
		last := c.points[len(c.points)-1]
		s, _ := c.slope()
		fmt.Fprintf(b, "<line class=\"lead\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><path class=\"mark\" d=\"%s\"/>", x.at(last.x)+6, y.at(last.y), plotRight+14, ends[i], mark(i, plotRight+20, ends[i]))
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%.1f\">%s, x^%.2f</text></g>\n", plotRight+30, ends[i]+4, html.EscapeString(c.Name), s)
	}
}

// labels are the heights of the lines' names, moved apart where lines end close
// to each other.
func labels(y axis, shown []curve) []float64 {
	order := make([]int, len(shown))
	at := make([]float64, len(shown))
	for i, c := range shown {
		order[i], at[i] = i, y.at(c.points[len(c.points)-1].y)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, at[a]-at[b])) })
	// From the bottom up, each at least its height above the one below; then
	// down again where the top was left.
	next := float64(plotBottom)
	for _, i := range slices.Backward(order) {
		at[i] = min(at[i], next)
		next = at[i] - labelHeight
	}
	next = plotTop
	for _, i := range order {
		at[i] = max(at[i], next)
		next = at[i] + labelHeight
	}
	return at
}

// mark is the outline of the mark of the line i around a point.
func mark(i int, x, y float64) string {
	switch i % 4 {
	case 0:
		return fmt.Sprintf("M%.1f %.1fa4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x-4, y)
	case 1:
		return fmt.Sprintf("M%.1f %.1fh7v7h-7z", x-3.5, y-3.5)
	case 2:
		return fmt.Sprintf("M%.1f %.1fl5 9h-10z", x, y-5)
	default:
		return fmt.Sprintf("M%.1f %.1fl5 5l-5 5l-5 -5z", x, y-5)
	}
}

// describe says in words what the plot shows, for who does not see it.
func describe(cs []curve) string {
	var out []string
	for _, c := range cs {
		first, last := c.points[0], c.points[len(c.points)-1]
		out = append(out, fmt.Sprintf("%s: from %s at %s to %s at %s %s", c.Name, number(first.y), number(first.x), number(last.y), number(last.x), c.XUnit))
	}
	return strings.Join(out, "; ")
}

// number prints a value with three digits that count, and commas in large ones.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e15:
		return thousands(fmt.Sprintf("%.0f", v))
	case a >= 100:
		return thousands(fmt.Sprintf("%.0f", v))
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	case a >= 0.001:
		return strings.TrimRight(fmt.Sprintf("%.4f", v), "0")
	default:
		return fmt.Sprintf("%.2g", v)
	}
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
