package imagelist

import (
	"errors"
	"testing"
	"testing/fstest"
	"time"
)

// TestRunaway gives up on a rendering that does not end, and on templates that
// ask for more values than memory holds.
func TestRunaway(t *testing.T) {
	t.Parallel()
	s := &scanner{ctx: t.Context(), res: &Result{}, renderTime: time.Millisecond}
	stop := make(chan struct{})
	defer close(stop)
	if _, err := s.watched(func() (map[string]string, error) { <-stop; return nil, nil }); !errors.Is(err, errRunaway) {
		t.Errorf("watched = %v, want errRunaway", err)
	}
	large := map[string]string{"a": string(make([]byte, maxChartRender+1))}
	s.renderTime = time.Minute
	if _, err := s.watched(func() (map[string]string, error) { return large, nil }); !errors.Is(err, errRunaway) {
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
