package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/perf/figure"
)

// A writer of the page, and of the plots beside it.
type pageWriter struct {
	strings.Builder
	dir   string // of the plots
	plots map[string]string
}

// writePage writes the page and its plots from a record, and removes plots that
// are no longer drawn.
func writePage(page string, r *record) error {
	w := &pageWriter{dir: filepath.Base(beside(page)), plots: map[string]string{}}
	w.head(r)
	w.goals(r)
	w.WriteString("\n## Figures\n")
	for _, o := range r.Parts {
		w.part(o)
	}
	w.ends(r)
	w.missing(r)
	err := os.MkdirAll(beside(page), 0o755)
	old, _ := filepath.Glob(filepath.Join(beside(page), "*.svg"))
	for _, name := range old {
		if _, kept := w.plots[filepath.Base(name)]; !kept {
			err = errors.Join(err, os.Remove(name))
		}
	}
	for name, svg := range w.plots {
		err = errors.Join(err, os.WriteFile(filepath.Join(beside(page), name), []byte(svg), 0o644))
	}
	return errors.Join(err, os.WriteFile(page, []byte(w.String()), 0o644))
}

func (w *pageWriter) head(r *record) {
	w.WriteString("# Performance\n\nWritten by `make bench-all`; corrections belong into the benchmarks. [limits.md](limits.md) has what was tried and what refuses, [reliability.md](reliability.md) the crashes.\n\n")
	if r.Quick {
		w.WriteString("**A quick run with small sizes: it shows that the benchmarks work, and no figure of it is worth keeping.**\n\n")
	}
	w.WriteString("- " + strings.Join(slices.Concat(r.Machine, r.Versions), "\n- ") + "\n\n")
	w.WriteString("Times are medians. Ratios are between programs that ran in turn on this machine. `CPU s` is processor time, user and system, of the program and its children. `MB` is 10^6 bytes. A slope is the exponent b of x^b that fits all points best: 1 is in proportion, 0 constant; the second one is that between the two largest sizes, where a start's constant cost weighs least.\n\n")
	w.WriteString("| part | command | measured (UTC) | took | load before | |\n| --- | --- | --- | --- | --- | --- |\n")
	var took float64
	for _, o := range r.Parts {
		state := "whole"
		if o.Problem != "" {
			state = "**not whole**, see the end"
		}
		took += o.Seconds
		fmt.Fprintf(w, "| [%s](#%s) | `%s` | %s | %.0f s | %.1f | %s |\n", o.Name, anchor(o.Title), o.Command, o.Date, o.Seconds, o.Load, state)
	}
	fmt.Fprintf(w, "\nAll together: %.0f minutes. A load above 1 before a part means that something else ran: seconds are then too long, processor time a little, requests and bytes not at all.\n", took/60)
}

// anchor is the name of a heading in a link, as GitHub makes it.
func anchor(title string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(title) {
		switch {
		case c == ' ' || c == '-':
			b.WriteRune('-')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_':
			b.WriteRune(c)
		}
	}
	return b.String()
}

// goals is the table of the figures that have one, missed ones first. Of a growth
// that meets its goals the largest size stands for all.
func (w *pageWriter) goals(r *record) {
	var with []figure.Figure
	for _, o := range r.Parts {
		for _, f := range o.Figures {
			if f.Goal != nil {
				with = append(with, f)
			}
		}
	}
	if len(with) == 0 {
		return
	}
	all, larger := len(with), map[string]float64{}
	for _, f := range with {
		larger[f.Name+f.Unit] = max(larger[f.Name+f.Unit], f.X)
	}
	missed := 0
	for _, f := range with {
		missed += 1 - rank(f)
	}
	with = slices.DeleteFunc(with, func(f figure.Figure) bool { return rank(f) == 1 && f.X < larger[f.Name+f.Unit] })
	slices.SortStableFunc(with, func(a, b figure.Figure) int { return cmp.Compare(rank(a), rank(b)) })
	fmt.Fprintf(w, "\n## Goals\n\n%d of %d are met; of a growth that meets them the largest size is shown.\n\n| | figure | value | beside | ratio | goal |\n| --- | --- | --- | --- | --- | --- |\n", all-missed, all)
	for _, f := range with {
		state := "met"
		if rank(f) == 0 {
			state = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s %s | %s | %s | %s |\n", state, cell(where(f)), number(f.Value), f.Unit, against(f), ratio(f), goal(f))
	}
}

// rank is 0 for a missed goal and 1 for one that is met.
func rank(f figure.Figure) int {
	v := f.Value
	if f.Peer != "" {
		v /= f.PeerValue
	}
	if f.Least == (v >= *f.Goal) || v == *f.Goal {
		return 1
	}
	return 0
}

func where(f figure.Figure) string {
	bench, name := group(f.Name)
	if f.X > 0 {
		name += ", " + number(f.X) + " " + f.XUnit
	}
	return bench + ": " + name
}

// group splits the name of a figure into its bench and the rest.
func group(name string) (bench, rest string) {
	bench, rest, found := strings.Cut(name, "/")
	if !found {
		return "", name
	}
	return bench, rest
}

func against(f figure.Figure) string {
	if f.Peer == "" {
		return ""
	}
	return cell(f.Peer) + ": " + number(f.PeerValue) + " " + f.Unit
}

func ratio(f figure.Figure) string {
	if f.Peer == "" {
		return ""
	}
	return fmt.Sprintf("%.2f", f.Value/f.PeerValue)
}

func goal(f figure.Figure) string {
	if f.Goal == nil {
		return ""
	}
	if f.Least {
		return "≥ " + number(*f.Goal)
	}
	return "≤ " + number(*f.Goal)
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// part is a section: a table of single figures, and the growths.
func (w *pageWriter) part(o outcome) {
	fmt.Fprintf(w, "\n### %s\n\n%s `%s`\n", o.Title, o.About, o.Command)
	if o.Problem != "" {
		fmt.Fprintf(w, "\n**Not whole:** %s\n", cell(o.Problem))
	}
	rows := 0
	for _, f := range o.Figures {
		if f.X > 0 {
			continue
		}
		if rows++; rows == 1 {
			w.WriteString("\n| figure | median | smallest to largest, runs | beside | ratio | goal |\n| --- | --- | --- | --- | --- | --- |\n")
		}
		_, name := group(f.Name)
		if f.Note != "" {
			name += " (" + f.Note + ")"
		}
		fmt.Fprintf(w, "| %s | %s %s | %s | %s | %s | %s |\n", cell(name), number(f.Value), f.Unit, spread(f), against(f), ratio(f), goal(f))
	}
	w.growth(o)
}

func spread(f figure.Figure) string {
	switch {
	case f.High != 0 || f.Low != 0:
		return fmt.Sprintf("%s to %s, %d", number(f.Low), number(f.High), max(f.Runs, 1))
	case f.Runs > 1:
		return fmt.Sprint(f.Runs)
	}
	return ""
}

// growth is a table and plots of the figures that have sizes: one plot for each
// size and unit.
func (w *pageWriter) growth(o outcome) {
	type kind struct{ xUnit, unit string }
	var kinds []kind
	all := curves(o.Figures)
	for _, c := range all {
		if k := (kind{c.XUnit, c.Unit}); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		var cs []curve
		var sizes []float64
		for _, c := range all {
			if c.XUnit != k.xUnit || c.Unit != k.unit {
				continue
			}
			cs = append(cs, c)
			for _, p := range c.points {
				if !slices.Contains(sizes, p.x) {
					sizes = append(sizes, p.x)
				}
			}
		}
		slices.Sort(sizes)
		w.growthTable(k.xUnit, k.unit, sizes, cs)
		title := fmt.Sprintf("%s: %s by %s", o.Title, k.unit, k.xUnit)
		for i, part := range slices.Collect(slices.Chunk(cs, mostLines)) {
			if svg := plot(title, k.xUnit, k.unit, part); svg != "" {
				name := fmt.Sprintf("%s-%s-by-%s.svg", o.Name, plain(k.unit), plain(k.xUnit))
				if i > 0 {
					name = strings.TrimSuffix(name, ".svg") + fmt.Sprintf("-%d.svg", i+1)
				}
				w.plots[name] = svg
				fmt.Fprintf(w, "\n![%s](%s/%s)\n", title, w.dir, name)
			}
		}
	}
}

func (w *pageWriter) growthTable(xUnit, unit string, sizes []float64, cs []curve) {
	fmt.Fprintf(w, "\n| %s, %s: |", unit, xUnit)
	for _, s := range sizes {
		fmt.Fprintf(w, " %s |", number(s))
	}
	fmt.Fprintf(w, " slope | at the end |\n|%s\n", strings.Repeat(" --- |", len(sizes)+3))
	for _, c := range cs {
		fmt.Fprintf(w, "| %s |", cell(c.Name))
		for _, s := range sizes {
			text := ""
			if v, ok := c.at(s); ok {
				text = number(v)
			}
			fmt.Fprintf(w, " %s |", text)
		}
		all, end := "", ""
		if s, ok := c.slope(); ok {
			all = fmt.Sprintf("%.2f", s)
		}
		if s, ok := c.end(); ok {
			end = fmt.Sprintf("%.2f", s)
		}
		fmt.Fprintf(w, " %s | %s |\n", all, end)
	}
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// plain makes a part of a file's name.
func plain(s string) string {
	return strings.Trim(notPlain.ReplaceAllString(strings.ToLower(s), "-"), "-")
}

// missing says what was not measured.
func (w *pageWriter) missing(r *record) {
	w.WriteString("\n## Not measured\n\n")
	for _, o := range r.Parts {
		if o.Problem != "" {
			fmt.Fprintf(w, "- %s: %s\n", o.Title, cell(o.Problem))
		}
	}
	for _, p := range parts {
		if !slices.ContainsFunc(r.Parts, func(o outcome) bool { return o.Name == p.name }) {
			fmt.Fprintf(w, "- %s: that part did not run.\n", p.title)
		}
	}
	w.WriteString(`- Networks but loopback and an emulated link, disks but this one, processors but these.
- Registries other than distribution under load; object storage; replicated registries. The section above derives their bounds and measures none.
- More than 20 machines of separate kernels. 1,000 machines are stand-ins or a simulation, as their sections say.
- hauler, zarf, oc-mirror, imgpkg and others that are in no package registry of this machine; helm and crane where the list of versions says that they are not there.
- Builds larger than 5.2 GB (` + "`make bench-build`" + ` as it is), blobs larger than 1 GiB, stores of more than 3,000 images.
`)
}
