package registry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// TestReplace: a tag means the new content at once; who has begun to pull the old
// one gets the rest of it, until it is released.
func TestReplace(t *testing.T) {
	t.Parallel()
	old := writeLayer(t, tree.NamingPath, few())
	next := writeLayer(t, tree.NamingPath, without("docker.io/library/nginx:latest"))
	var released atomic.Bool
	h, err := registry.NewHandler(t.Context(), registry.Dirs(old.Dir), registry.Options{
		Linger:  time.Millisecond,
		Release: func() error { released.Store(true); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	running := httptest.NewRecorder() // holds the old content while it is written
	begun, goOn := make(chan struct{}), make(chan struct{})
	w := slowWriter{running, sync.OnceFunc(func() { close(begun); <-goOn })}
	d := old.Content("docker.io/library/nginx:latest").Root.Digest.String()
	var wg sync.WaitGroup
	wg.Go(func() { h.ServeHTTP(w, httptest.NewRequest("GET", "/v2/library/nginx/manifests/latest", nil)) })
	<-begun
	if err := h.Replace(t.Context(), registry.Dirs(next.Dir), registry.Options{}); err != nil {
		t.Fatal(err)
	}
	if w := do(h, "GET", "/v2/library/busybox/manifests/1.36"); w.Code != 200 {
		t.Errorf("new: %d", w.Code)
	}
	if w := do(h, "GET", "/v2/library/nginx/manifests/latest"); w.Code != 404 {
		t.Errorf("old tag: %d", w.Code)
	}
	if released.Load() {
		t.Error("released under a request")
	}
	close(goOn)
	wg.Wait()
	if running.Code != 200 || running.Header().Get("Docker-Content-Digest") != d {
		t.Errorf("the running request got %d %v", running.Code, running.Header())
	}
	for deadline := time.Now().Add(time.Minute); !released.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never released")
		}
	}
	if w := do(h, "GET", "/v2/library/nginx/manifests/"+d); w.Code != 404 {
		t.Errorf("after the release: %d", w.Code)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func without(name string) []registrytest.Image {
	return slices.DeleteFunc(few(), func(i registrytest.Image) bool { return i.Name == name })
}

type slowWriter struct {
	http.ResponseWriter
	wait func()
}

func (w slowWriter) Write(b []byte) (int, error) {
	w.wait()
	return w.ResponseWriter.Write(b)
}

// TestReplaceWhilePulling: no request for a digest fails, however often the
// content changes.
func TestReplaceWhilePulling(t *testing.T) {
	t.Parallel()
	a := writeLayer(t, tree.NamingPath, few())
	b := writeLayer(t, tree.NamingPath, without("docker.io/library/nginx:latest"))
	released := atomic.Int32{}
	o := registry.Options{Release: func() error { released.Add(1); return nil }}
	h, err := registry.NewHandler(t.Context(), registry.Dirs(a.Dir), o)
	if err != nil {
		t.Fatal(err)
	}
	path := "/v2/library/nginx/manifests/" + a.Content("docker.io/library/nginx:latest").Root.Digest.String()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if w := do(h, "GET", path); w.Code != 200 {
					t.Errorf("%d: %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	for i := range 20 {
		if err := h.Replace(t.Context(), registry.Dirs([]string{b.Dir, a.Dir}[i%2]), o); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if w := do(h, "GET", registry.MetricsPath); w.Code != 200 {
		t.Error(w.Code)
	}
	if err := h.Replace(t.Context(), registry.Dirs(a.Dir+"/none"), o); err == nil {
		t.Error("a layer that is not there was served")
	}
	if w := do(h, "GET", path); w.Code != 200 {
		t.Errorf("after a failed Replace: %d", w.Code)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); released.Load() != 21; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 21 contents released", released.Load())
		}
	}
}
