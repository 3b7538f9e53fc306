package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cmd/sealer/internal/hostile"
)

// TestHostile runs sealer on every case of package hostile, prints the table of
// the outcomes with -v, and compares it with docs/security.md. UPDATE_DOCS=1
// writes it there. Most cases wait for a registry or the disk, so several run at
// a time.
func TestHostile(t *testing.T) {
	if raceDetector() {
		t.Skip("the bounds of memory and time are those of a program without the race detector: make hostile")
	}
	t.Parallel()
	cases := hostile.Cases()
	failures := make([][]string, len(cases))
	var g errgroup.Group
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	dir := t.TempDir()
	mounts, err := condition("mounts")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		g.Go(func() error {
			r := &hostileRun{ctx: t.Context(), Case: c, dir: filepath.Join(dir, fmt.Sprint(i)), mounts: mounts}
			r.run()
			failures[i] = r.failures
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		for _, f := range failures[i] {
			t.Errorf("%s: %s: %s", c.Group, c.Name, f)
		}
	}
	table := hostileTable(cases)
	if testing.Verbose() {
		fmt.Print(table)
	}
	compareWithDocs(t, "../../docs/security.md", "hostile", table)
}

// hostileTable returns the cases as tables, one for each group.
func hostileTable(cases []hostile.Case) string {
	var b strings.Builder
	group := ""
	for _, c := range cases {
		if c.Group != group {
			group = c.Group
			n := 0
			for _, other := range cases {
				if other.Group == group {
					n++
				}
			}
			fmt.Fprintf(&b, "\n| %s: %d inputs | outcome of `sealer %s` |\n| --- | --- |\n", group, n, c.Args[0])
		}
		escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
		fmt.Fprintf(&b, "| %s | %s |\n", escape.Replace(c.Name), escape.Replace(c.Outcome()))
	}
	return b.String()
}

// compareWithDocs compares the part of a page between two marks with content, or
// writes it with UPDATE_DOCS.
func compareWithDocs(t *testing.T, page, mark, content string) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+mark+": printed by make "+mark+" -->\n", "<!-- end -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table: %s", page, begin)
	}
	want := head + begin + content + "\n" + end + tail
	if want == string(b) || t.Failed() {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Errorf("%s is not current: make %s UPDATE_DOCS=1", page, mark)
		return
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
