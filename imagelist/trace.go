package imagelist

import "strings"

// trace finds for findings in a rendering the line of the template that they
// come from. The lines that a template renders as they stand are anchors;
// between two anchors, the line with the same key is taken.
func trace(found []Finding, template, rendering string) {
	if len(found) == 0 || template == "" {
		return
	}
	from, to := strings.Split(template, "\n"), strings.Split(rendering, "\n")
	if len(from)*len(to) > 4<<20 {
		return
	}
	anchors := align(from, to)
	for i := range found {
		if r := found[i].Rendered; r > 0 && r <= len(to) {
			found[i].Line = templateLine(from, to, anchors, r-1) + 1
		}
	}
}

// traceGaps is trace for the gaps of this template, which are the last.
func (s *scanner) traceGaps(template, rendering string) {
	lines := make([]Finding, len(s.gapLines))
	for i, r := range s.gapLines {
		lines[i].Rendered = r
	}
	trace(lines, template, rendering)
	gaps := s.res.Gaps[len(s.res.Gaps)-len(lines):]
	for i := range gaps {
		gaps[i].Line = lines[i].Line
	}
}

// align returns for each line of to the line of from that it is equal to in
// the longest common subsequence, -1 where there is none.
func align(from, to []string) []int {
	a, b := significant(from), significant(to)
	n, m := len(a), len(b)
	length := make([][]int32, n+1)
	for i := range length {
		length[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[i].text == b[j].text {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	out := make([]int, len(to))
	for j := range out {
		out[j] = -1
	}
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case a[i].text == b[j].text:
			out[b[j].at] = a[i].at
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

type sourceLine struct {
	text string
	at   int
}

// significant are the lines without actions, blanks left out.
func significant(lines []string) []sourceLine {
	var out []sourceLine
	for i, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.Contains(l, "{{") && !strings.HasPrefix(l, "#") {
			out = append(out, sourceLine{l, i})
		}
	}
	return out
}

// templateLine returns the line of the template that line r of the rendering
// comes from, -1 when it cannot be told.
func templateLine(from, to []string, anchors []int, r int) int {
	if anchors[r] >= 0 {
		return anchors[r]
	}
	lo, hi, first := 0, len(from), 0
	for i := r - 1; i >= 0; i-- {
		if anchors[i] >= 0 {
			lo, first = anchors[i]+1, i+1
			break
		}
	}
	for i := r + 1; i < len(to); i++ {
		if anchors[i] >= 0 {
			hi = anchors[i]
			break
		}
	}
	if at := sameLine(from[lo:max(lo, hi)], to[first:r+1]); at >= 0 {
		return lo + at
	}
	// Lines that a helper renders: the action itself, when there is only one.
	at := -1
	for i := lo; i < hi; i++ {
		if strings.Contains(from[i], "include") || strings.Contains(from[i], "toYaml") || strings.Contains(from[i], "tpl") {
			if at >= 0 {
				return -1
			}
			at = i
		}
	}
	return at
}

// maxTurns bounds the rendered lines that are counted to tell a turn, for each
// finding.
const maxTurns = 1000

// sameLine returns which of the lines of a template the last of the lines that
// it rendered to comes from, -1 when none has its key and its text outside of
// actions. If several lines match (a range loop), the position in the repetition
// decides.
func sameLine(from, to []string) int {
	last := to[len(to)-1]
	key := lineKey(last)
	var candidates []int
	for i, l := range from {
		if strings.Contains(l, "{{") && lineKey(l) == key && rendersTo(l, last) {
			candidates = append(candidates, i)
		}
	}
	switch {
	case len(candidates) == 0:
		return -1
	case len(candidates) == 1 || len(to) > maxTurns:
		return candidates[0]
	}
	turn := 0
	for _, l := range to[:len(to)-1] {
		if lineKey(l) == key && rendersTo(from[candidates[0]], l) {
			turn++
		}
	}
	return candidates[turn%len(candidates)]
}

// rendersTo reports whether the text outside of a template line's actions
// stands in a line, in order.
func rendersTo(template, line string) bool {
	for _, literal := range action.Split(strings.TrimSpace(template), -1) {
		_, after, ok := strings.Cut(line, literal)
		if !ok {
			return false
		}
		line = after
	}
	return true
}

// lineKey is the part of a line before its value.
func lineKey(l string) string {
	l = strings.TrimSpace(l)
	if key, _, ok := strings.Cut(l+" ", ": "); ok && !strings.Contains(key, "{{") {
		return key
	}
	if strings.HasPrefix(l, "-") {
		return "-"
	}
	return l
}
