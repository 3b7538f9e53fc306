package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// start runs the command until the test ends and returns the address it prints.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, w, io.Discard)
		w.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ready, conf := filepath.Join(dir, "ready"), filepath.Join(dir, "registries.conf")
	addr := start(t, "-any", "-ready-file", ready, "-registries-conf", conf)
	for _, path := range []string{"docker.io/library/busybox/manifests/1.36", "ghcr.io/what/ever/manifests/v9"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/v2/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", path, resp, err)
		}
		resp.Body.Close()
	}
	for file, want := range map[string]string{ready: addr + "\n", conf: "location = \"" + addr + "/ghcr.io\""} {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %q, %v; want %q in it", file, b, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"extra"}, {"-user", "nocolon"}, {"-no-such-flag"}, {"-addr", "127.0.0.1:99999"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
}
