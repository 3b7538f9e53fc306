package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/perf/figure"
)

func TestSlope(t *testing.T) {
	t.Parallel()
	c := curve{points: []point{{1, 3}, {10, 30}, {100, 300}, {1000, 30000}}}
	if s, ok := c.end(); !ok || math.Abs(s-2) > 1e-9 {
		t.Errorf("the end's slope is %v", s)
	}
	if s, ok := (curve{points: c.points[:3]}).slope(); !ok || math.Abs(s-1) > 1e-9 {
		t.Errorf("the slope is %v", s)
	}
	if m, ok := c.marginal(); !ok || m != 33 {
		t.Errorf("one more costs %v", m)
	}
	for name, c := range map[string]curve{"nothing": {}, "one point": {points: c.points[:1]}, "one size": {points: []point{{2, 1}, {2, 3}}}, "zero": {points: []point{{1, 0}, {2, 3}}}} {
		if s, ok := c.slope(); ok {
			t.Errorf("%s has the slope %v", name, s)
		}
	}
}

func TestBenchFigures(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]figure.Figure{
		"BenchmarkServe/large/layers=1-2 \t 100\t  2500000 ns/op\t  543.5 MB/s\t 12 B/op\t 3 allocs/op": {{Name: "Serve, large, layers=1", Value: 543.5, Unit: "MB/s", Runs: 100}},
		"BenchmarkCall-2 \t 100\t  2500000 ns/op":                                                       {{Name: "Call", Value: 2.5, Unit: "ms", Runs: 100}},
		"BenchmarkCall": nil,
		"ok  \tgithub.com/clusterimage/sealer/store\t3.2s":        nil,
		"BenchmarkCall-2 \t 100\t  many ns/op":                    nil,
		"20 images  BenchmarkCall-2 \t 100\t  2500000 ns/op here": nil,
	} {
		if diff := cmp.Diff(want, benchFigures(line)); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 3: "3", -3: "-3", 1234567: "1,234,567", 1234.5: "1,234", 12.34: "12.3", 1.234: "1.23", 0.0123: "0.0123", 0.5: "0.5", 0.00001234: "1.2e-05", 100: "100", 1000: "1,000", -1000: "-1,000", 999.9: "1,000",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		f   figure.Figure
		met bool
	}{
		"below":           {figure.Figure{Value: 1, Goal: new(2.0)}, true},
		"at":              {figure.Figure{Value: 2, Goal: new(2.0)}, true},
		"above":           {figure.Figure{Value: 3, Goal: new(2.0)}, false},
		"at least":        {figure.Figure{Value: 3, Goal: new(2.0), Least: true}, true},
		"not at least":    {figure.Figure{Value: 1, Goal: new(2.0), Least: true}, false},
		"ratio":           {figure.Figure{Value: 11, PeerValue: 10, Peer: "x", Goal: new(1.1)}, true},
		"too large ratio": {figure.Figure{Value: 12, PeerValue: 10, Peer: "x", Goal: new(1.1)}, false},
	} {
		if got := rank(tc.f) == 1; got != tc.met {
			t.Errorf("%s: met is %v", name, got)
		}
	}
}

// A page of a record with all kinds of figures, and its plots.
func TestPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "performance.md")
	r := sample()
	if err := errors.Join(r.write(page), os.WriteFile(filepath.Join(beside(page), "old.svg"), nil, 0o600), writePage(page, r)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 of 3 are met; ", "| **missed** | images: pull | 30 s | skopeo: 10 s | 3.00 | ≤ 1.10 |", "| met | images: push, 100 images | 5 requests |",
		"| push | 3 | 5 | 0.11 | 0.11 |", "| a \\| b (stand-in) | 1.50 s | 1 to 2, 3 |", "(performance/images-requests-by-images.svg)", "**Not whole:** no cluster here", "- Making a cluster: no cluster here",
		"- Serving: that part did not run.", "**Push targets.** Not derived",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page has no %q:\n%s", want, b)
		}
	}
	plots, err := filepath.Glob(filepath.Join(beside(page), "*.svg"))
	if err != nil || len(plots) != 1 {
		t.Fatalf("%v, %v", plots, err)
	}
	svg, err := os.ReadFile(plots[0])
	if err != nil {
		t.Fatal(err)
	}
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, want := range []string{"prefers-color-scheme: dark", "<title", "push, x^0.11", ">requests</text>", ">images</text>"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot has no %q", want)
		}
	}
	again, err := readRecord(page)
	if diff := cmp.Diff(r, again); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func sample() *record {
	return &record{Machine: []string{"a machine"}, Versions: []string{"go"}, Parts: []outcome{
		{Name: "images", Title: "By the number of container images", Command: "make x", Date: "2026-11-22 10:00", Figures: []figure.Figure{
			{Name: "images/push", Value: 3, Unit: "requests", X: 1, XUnit: "images", Goal: new(4.0)},
			{Name: "images/push", Value: 5, Unit: "requests", X: 100, XUnit: "images", Goal: new(5.0)},
			{Name: "images/pull", Value: 30, Unit: "s", Peer: "skopeo", PeerValue: 10, Goal: new(1.1)},
			{Name: "images/a | b", Value: 1.5, Unit: "s", Low: 1, High: 2, Runs: 3, Note: "stand-in"},
		}},
		{Name: "run", Title: "Making a cluster", Command: "make bench-run", Problem: "no cluster here"},
	}}
}

// Names of lines that end at one place stand apart, inside of the plot.
func TestLabels(t *testing.T) {
	t.Parallel()
	var cs []curve
	for range mostLines {
		cs = append(cs, curve{points: []point{{1, 1}, {2, 1}}})
	}
	for _, y := range []axis{{-1, 1, plotBottom, plotTop}, {-0.001, 1, plotBottom, plotTop}, {-1, 0.001, plotBottom, plotTop}} {
		at := labels(y, cs)
		for i := range at {
			for j := range i {
				if math.Abs(at[i]-at[j]) < labelHeight-1e-9 {
					t.Errorf("%v", at)
				}
			}
			if at[i] < plotTop || at[i] > plotBottom {
				t.Errorf("%v", at)
			}
		}
	}
}

// A part that fails, hangs or writes nonsense is said, and its good figures stay.
func TestMeasure(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such tool")
	for name, tc := range map[string]struct {
		run     func(ctx context.Context, m *meter) error
		problem string
		figures int
	}{
		"whole": {func(_ context.Context, m *meter) error { return m.add(figure.Figure{Name: "x", Value: 1, Unit: "s"}) }, "", 1},
		"fails": {func(_ context.Context, m *meter) error {
			return errors.Join(m.add(figure.Figure{Name: "x", Value: 1, Unit: "s"}), bad)
		}, "no such tool", 1},
		"silent": {func(context.Context, *meter) error { return nil }, "it wrote no figures", 0},
		"hangs":  {func(ctx context.Context, _ *meter) error { <-ctx.Done(); return ctx.Err() }, "it took longer than 50ms", 0},
		"garbled": {func(_ context.Context, m *meter) error {
			return os.WriteFile(m.figures, []byte("{\"figure\":\"a/b\",\"value\":1,\"unit\":\"s\"}\n{\n"), 0o600)
		}, "figure in line 2: unexpected EOF", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{tmp: t.TempDir(), out: io.Discard}
			got := l.measure(t.Context(), part{name: "p", limit: map[bool]time.Duration{true: 50 * time.Millisecond, false: time.Minute}[name == "hangs"], run: tc.run})
			if got.Problem != tc.problem || len(got.Figures) != tc.figures {
				t.Errorf("%q, %d figures", got.Problem, len(got.Figures))
			}
		})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	got, err := choose("serve,version")
	if err != nil || len(got) != 2 || got[0].name != "version" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choose("none"); err == nil || !strings.Contains(err.Error(), `"none"`) {
		t.Error(err)
	}
}

// The page in the repository is the one that its run.json gives.
func TestPublishedPage(t *testing.T) {
	t.Parallel()
	r, err := readRecord(filepath.Join("..", published))
	if err != nil {
		t.Fatal(err)
	}
	if r.Quick {
		t.Error("the published figures are those of a quick run")
	}
	page := filepath.Join(t.TempDir(), "performance.md")
	if err := writePage(page, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"performance.md"}, svgs(t, beside(page))...) {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(page), name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../docs", name))
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("docs/%s is not what go run ./perf -write makes: %v", name, err)
		}
	}
	if got, want := svgs(t, beside(filepath.Join("..", published))), svgs(t, beside(page)); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func svgs(t *testing.T, dir string) (out []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		out = append(out, filepath.Join(filepath.Base(dir), filepath.Base(n)))
	}
	return out
}
