package imagelist

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

// TestRunaway gives up on a rendering that does not end, and on templates that
// ask for more values than memory holds.
func TestRunaway(t *testing.T) {
	t.Parallel()
	s := &scanner{ctx: t.Context(), res: &Result{}, renderTime: 50 * time.Millisecond}
	var stop atomic.Bool
	defer stop.Store(true)
	busy := func() (map[string]string, error) {
		for !stop.Load() {
		}
		return nil, nil
	}
	if _, err := s.watched(new(atomic.Bool), busy); !errors.Is(err, errRunaway) {
		t.Errorf("watched = %v, want errRunaway", err)
	}
	// Time that others take of the processor is not the chart's.
	idle := func() (map[string]string, error) { time.Sleep(200 * time.Millisecond); return nil, nil }
	if _, err := s.watched(new(atomic.Bool), idle); err != nil && runtime.GOOS == "linux" {
		t.Errorf("watched = %v of a rendering that waited", err)
	}
	large := map[string]string{"a": string(make([]byte, maxChartRender+1))}
	s.renderTime = time.Minute
	if _, err := s.watched(new(atomic.Bool), func() (map[string]string, error) { return large, nil }); !errors.Is(err, errRunaway) {
		t.Errorf("watched = %v, want errRunaway", err)
	}
	for _, loop := range []string{"{{ range until 1000000000 }}x{{ end }}", `{{ repeat 100000000 "x" }}`, "{{- range untilStep 0 2000000000 1 -}}{{ end }}"} {
		_, err := Scan(t.Context(), fstest.MapFS{
			"charts/loop/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: loop\nversion: 1.0.0\n")},
			"charts/loop/templates/a.yaml": {Data: []byte("a: b\n" + loop)},
		}, Options{})
		if !errors.Is(err, errRunaway) {
			t.Errorf("%s: %v, want errRunaway", loop, err)
		}
	}
}

// TestRunawayStops ends loops, recursion and texts that values give: nothing of a
// rendering that is given up goes on.
func TestRunawayStops(t *testing.T) {
	t.Parallel()
	for name, chart := range map[string][2]string{
		"loops":   {"{{ range until 9999 }}{{- range until 9999 -}}{{ range until 9999 }}{{ end }}{{ end }}{{ end }}", ""},
		"helpers": {"{{ define \"a\" }}{{ range until 9999 }}{{ include \"b\" . }}{{ end }}{{ end }}{{ define \"b\" }}{{ range until 99999 }}{{ end }}{{ end }}{{ include \"a\" . }}", ""},
		"tpl":     {"{{ tpl .Values.loop . }}", "loop: '{{ range until 9999 }}{{ range until 9999 }}{{ range until 9999 }}{{ end }}{{ end }}{{ end }}'\n"},
	} {
		s := newScanner(t.Context(), Options{KubeVersion: DefaultKubeVersion, Lenient: true})
		s.renderTime = 50 * time.Millisecond
		s.fsys = fstest.MapFS{
			"charts/loop/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: loop\nversion: 1.0.0\n")},
			"charts/loop/values.yaml":      {Data: []byte(chart[1])},
			"charts/loop/templates/a.yaml": {Data: []byte("a: b\n" + chart[0])},
		}
		if err := s.readCharts([]string{"charts/loop"}, nil); err != nil {
			t.Fatal(err)
		}
		if s.leftBehind != 0 {
			t.Errorf("%s: %d renderings go on", name, s.leftBehind)
		}
		if len(s.res.Gaps) != 1 || !strings.Contains(s.res.Gaps[0].Reason, errRunaway.Error()) {
			t.Errorf("%s: gaps %v, want one that says %q", name, s.res.Gaps, errRunaway)
		}
	}
}

// TestUnstoppable ends the scan where a single call takes memory without end, and
// gives up only the chart where a loop does.
func TestUnstoppable(t *testing.T) {
	s := &scanner{ctx: t.Context(), res: &Result{}, renderTime: time.Minute, renderHeap: 1 << 20}
	var end atomic.Bool
	var held [][]byte
	grow := func(until *atomic.Bool) func() (map[string]string, error) {
		return func() (map[string]string, error) {
			for !until.Load() {
				if len(held) < 64 {
					held = append(held, make([]byte, 1<<20))
				}
				time.Sleep(time.Millisecond)
			}
			return nil, nil
		}
	}
	stop := new(atomic.Bool)
	if _, err := s.watched(stop, grow(stop)); !errors.Is(err, errRunaway) || errors.Is(err, errUnstoppable) || s.leftBehind != 0 {
		t.Errorf("watched = %v of a loop, want errRunaway", err)
	}
	held = nil
	_, err := s.watched(new(atomic.Bool), grow(&end))
	end.Store(true)
	if !errors.Is(err, errUnstoppable) || s.leftBehind != 1 {
		t.Errorf("watched = %v of a single call, want errUnstoppable", err)
	}
}

// TestTicks leaves nothing of the ticks in a rendering, nor in the chart.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{{ range .a -}}\n x {{ end }}", "{{- define \"x\" }}{{ end }}", "{{/* range {{ */}}a", "{{ \"}}range\" }}{{ block `}}` . }}{{ end }}", "{{ range", "a}}{{",
	} {
		if got := withoutTicks(withTicks(text)); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := withTicks("{{ if range }}{{- range .x -}} y"); strings.Count(got, "lookup") != 1 || !strings.Contains(got, "-}} y") {
		t.Errorf("withTicks = %q", got)
	}
}

// TestManyCharts renders charts that were dropped from memory as those that
// were kept.
func TestManyCharts(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"charts/crd/Chart.yaml": {Data: []byte("apiVersion: v2\nname: crd\nversion: 1.0.0\n")},
		"charts/crd/crds/a.yaml": {Data: []byte("kind: CustomResourceDefinition\nspec: {group: x.example.com, names: {kind: X}, versions: [{name: v1}]}\n")}}
	for _, name := range []string{"a", "b"} {
		fsys["charts/"+name+"/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")}
		fsys["charts/"+name+"/templates/p.yaml"] = &fstest.MapFile{Data: []byte(
			"{{ if .Capabilities.APIVersions.Has \"x.example.com/v1\" }}\nkind: Pod\nspec: {containers: [{image: quay.io/x/" + name + "}]}\n{{ end }}")}
	}
	for _, kept := range []int{0, 1} {
		s := newScanner(t.Context(), Options{KubeVersion: DefaultKubeVersion})
		s.fsys, s.keptCharts = fsys, kept
		if err := s.readCharts([]string{"charts/a", "charts/b", "charts/crd"}, nil); err != nil || len(s.res.Found) != 2 {
			t.Errorf("kept %d: found %v, error %v, want two images", kept, s.res.Found, err)
		}
	}
}
