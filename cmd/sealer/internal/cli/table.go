package cli

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

const (
	columnGap = 3 // blanks between two columns
	tightGap  = 2 // where the table is as wide as the terminal
	// leastColumn is the width below which a column is not shortened: a table that
	// is wider all the same wraps.
	leastColumn = 8
)

// A sized writer knows how wide the screen is that it writes to.
type sized interface{ Width() int }

// widthOf is the number of columns of the terminal behind w; 0 is no terminal, for
// which nothing is shortened.
func widthOf(w io.Writer) int {
	if s, ok := w.(sized); ok {
		return s.Width()
	}
	return 0
}

// table writes rows in aligned columns. On a terminal that is narrower the widest
// cells lose their middle; elsewhere, and with -o json, everything is there.
func table(w io.Writer, header []string, rows [][]string) error {
	all := make([][]string, 0, len(rows)+1)
	for _, r := range append([][]string{header}, rows...) {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = line(c)
		}
		all = append(all, cells)
	}
	gap := columnGap
	if width := widthOf(w); width > 0 {
		gap = fit(all, width)
	}
	t := tabwriter.NewWriter(w, 0, 8, gap, ' ', 0)
	for _, cells := range all {
		if _, err := io.WriteString(t, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}

// fit shortens cells until a row has at most width columns, and returns the gap
// between two of them.
func fit(rows [][]string, width int) int {
	widest := make([]int, len(rows[0]))
	total := 0
	for i := range widest {
		for _, r := range rows {
			widest[i] = max(widest[i], utf8.RuneCountInString(r[i]))
		}
		total += widest[i]
	}
	gaps := len(widest) - 1
	if total+gaps*columnGap <= width {
		return columnGap
	}
	for total+gaps*tightGap > width {
		i := slices.Index(widest, slices.Max(widest))
		if widest[i] <= leastColumn {
			break
		}
		widest[i]--
		total--
	}
	for _, r := range rows {
		for i := range r {
			r[i] = withoutMiddle(r[i], widest[i])
		}
	}
	return tightGap
}

// withoutMiddle shortens s to width characters, of which there may be none: a
// terminal may say that it has no columns. Its begin and its end tell names
// apart: the registry and the tag, the directory and the line.
func withoutMiddle(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	head := (width - 1) * 2 / 5
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}
