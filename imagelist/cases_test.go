package imagelist_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/ref"
)

// A tally counts images: those that a case must give, those of them that were
// found, those that were mirrored, and those of them that were right.
type tally struct{ must, found, mirrored, right int }

func (t *tally) add(o tally) {
	t.must += o.must
	t.found += o.found
	t.mirrored += o.mirrored
	t.right += o.right
}

// TestCases judges the cases of testdata/cases, layouts of public repositories
// whose truth was worked out by hand before the scan saw them. "truth" has a line
// for each image: "must REF" is pulled, "may REF" is pulled after a further
// choice. Everything else that is mirrored is wrong. A line "gap WORDS" wants a
// gap whose line contains the words. "known" before must tells of a
// miss that the scan cannot mend: it counts, and must have a gap.
//
// -v prints the figures of docs/discovery.md.
func TestCases(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	var sum tally
	silent := 0
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			got, quiet, faults := judgeCase(t, p)
			for _, f := range faults {
				t.Error(f)
			}
			sum.add(got)
			if quiet {
				silent++
				t.Error("misses an image and tells no gap")
			}
		})
	}
	percent := func(a, b int) string {
		return fmt.Sprintf("%d of %d, %.1f %%", a, b, 100*float64(a)/float64(max(b, 1)))
	}
	t.Logf("%d cases: recall %s; precision %s; silent misses %d", len(paths), percent(sum.found, sum.must), percent(sum.right, sum.mirrored), silent)
}

// judgeCase scans one case. quiet says that an image was missed and no gap was
// told.
func judgeCase(t *testing.T, file string) (got tally, quiet bool, faults []string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o := imagelist.Options{Lenient: true}
	if err := setOptions(&o, string(a.Comment)); err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	var truth string
	for _, f := range a.Files {
		if f.Name == "truth" {
			truth = string(f.Data)
			continue
		}
		fsys[f.Name] = &fstest.MapFile{Data: unescape(f.Data)}
	}
	res, err := imagelist.Scan(t.Context(), fsys, o)
	if err != nil {
		faults = append(faults, err.Error())
	}
	var mirrored []string
	for _, im := range append(res.Mirror(false), res.Requirements()...) {
		mirrored = append(mirrored, im.Reference.String())
	}
	allowed := map[string]bool{}
	missed := false
	for l := range strings.Lines(truth) {
		word, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		known := word == "known"
		if known {
			word, rest, _ = strings.Cut(rest, " ")
		}
		switch word {
		case "must", "may":
			r, err := ref.Parse(rest)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, l, err)
			}
			allowed[r.String()] = true
			if word == "may" {
				continue
			}
			got.must++
			if slices.Contains(mirrored, r.String()) {
				got.found++
				continue
			}
			missed = true
			if !known {
				faults = append(faults, "missed "+r.String())
			}
		case "gap":
			if !slices.ContainsFunc(res.Gaps, func(g imagelist.Gap) bool { return strings.Contains(string(g.Grade)+" "+g.String(), rest) }) {
				faults = append(faults, "no gap: "+rest)
			}
		case "":
		default:
			t.Fatalf("%s: %q", file, l)
		}
	}
	for _, m := range mirrored {
		if got.mirrored++; allowed[m] {
			got.right++
		} else {
			faults = append(faults, "wrong "+m)
		}
	}
	return got, missed && len(res.Gaps) == 0, faults
}
