package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestPrintVerifiedIsShort prints an image with more faults than a person reads.
func TestPrintVerifiedIsShort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		faults, repaired, missing int
		lines                     int
		more                      string // "" when nothing is left out
	}{
		{20, 0, 0, 21, ""},
		{21, 0, 0, 22, "and 1 more: 1 broken"},
		{15, 4, 10, 22, "and 9 more: 5 missing, 4 repaired"},
		{30, 25, 1, 22, "and 36 more: 10 broken, 1 missing, 25 repaired"},
	} {
		texts := func(n int) []string {
			var out []string
			for i := range n {
				out = append(out, fmt.Sprintf("blob %d", i))
			}
			return out
		}
		v := verification{Image: "a:v1", Faults: texts(tc.faults), Repaired: texts(tc.repaired), Missing: texts(tc.missing)}
		var out bytes.Buffer
		if err := printVerified(&out, []verification{v}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != tc.lines {
			t.Errorf("%d broken, %d repaired, %d missing: %d lines, want %d", tc.faults, tc.repaired, tc.missing, n, tc.lines)
		}
		if got := strings.Contains(out.String(), "and "); got != (tc.more != "") || !strings.Contains(out.String(), tc.more) {
			t.Errorf("%d broken, %d repaired, %d missing: no %q in\n%s", tc.faults, tc.repaired, tc.missing, tc.more, out.String())
		}
	}
}
