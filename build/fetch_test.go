package build_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/build"
)

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

func TestCopyURL(t *testing.T) {
	t.Parallel()
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/chart.tgz", func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "chart") })
	mux.Handle("/moved", http.RedirectHandler("/v1/chart.tgz", http.StatusFound))
	srv := serve(t, mux)
	dir := write(t, map[string]string{"Kubefile": fmt.Sprintf("FROM scratch\nCOPY %[1]s/v1/chart.tgz charts\nCOPY --checksum=%[2]s %[1]s/moved etc\n# twice, fetched once\nCOPY %[1]s/v1/chart.tgz other\n", srv.URL, digest.FromString("chart"))})
	s := open(t)
	r, err := run(t.Context(), t, s, dir, build.Options{Scan: "off"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"charts/": "", "charts/chart.tgz": "chart", "etc/": "", "etc/moved": "chart", "other/": "", "other/chart.tgz": "chart"}
	if diff := cmp.Diff(want, tree(t, s, r)); diff != "" {
		t.Error(diff)
	}
	if asked != 2 {
		t.Errorf("%d requests, want 2", asked)
	}
}

func TestCopyURLFails(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "short")
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "file") })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	srv := serve(t, mux)
	for name, tc := range map[string]struct{ source, want string }{
		"endless":   {"/endless", "it is larger than 1 MiB"},
		"cut":       {"/short", "unexpected EOF"},
		"not found": {"/none", "the server answers 404 Not Found"},
		"loop":      {"/loop", "more than 10 redirects"},
		"no name":   {"/", "the URL names no file"},
	} {
		s := open(t)
		dir := write(t, map[string]string{"Kubefile": "FROM scratch\nCOPY http://user:secret@" + strings.TrimPrefix(srv.URL, "http://") + tc.source + " etc\n"})
		_, err := run(t.Context(), t, s, dir, build.Options{MaxDownload: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "Kubefile:2: COPY: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		clean(t, s)
	}
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nCOPY --checksum=" + digest.FromString("other").String() + " " + srv.URL + "/file etc\n"})
	if _, err := run(t.Context(), t, s, dir, build.Options{}); err == nil || !strings.Contains(err.Error(), "its checksum is sha256:") {
		t.Errorf("wrong checksum: %v", err)
	}
	clean(t, s)
}

func TestCopyGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	repo := write(t, map[string]string{"charts/a/Chart.yaml": "v1", "charts/imageListWithAuth.yaml": "[]", "README": "v1"})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "one")
	git("tag", "v1")
	git("rm", "-q", "README")
	git("commit", "-qm", "two")
	bare := filepath.Join(t.TempDir(), "repo.git")
	git("clone", "-q", "--bare", ".", bare)
	cmd := exec.CommandContext(t.Context(), "git", "update-server-info")
	cmd.Dir = bare
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	srv := serve(t, http.FileServer(http.Dir(filepath.Dir(bare))))
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": fmt.Sprintf("FROM scratch\nCOPY %[1]s/repo.git#v1:charts charts\nCOPY %[1]s/repo.git src\n", srv.URL)})
	r, err := run(t.Context(), t, s, dir, build.Options{Scan: "off"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"charts/": "", "charts/a/": "", "charts/a/Chart.yaml": "v1", "src/": "", "src/charts/": "", "src/charts/a/": "", "src/charts/a/Chart.yaml": "v1"}
	if diff := cmp.Diff(want, tree(t, s, r)); diff != "" {
		t.Error(diff)
	}
	s = open(t)
	dir = write(t, map[string]string{"Kubefile": fmt.Sprintf("FROM scratch\nCOPY %[1]s/repo.git#none x\nCOPY %[1]s/repo.git#:../x x\nCOPY %[1]s/repo.git#v1:none x\n", srv.URL)})
	_, err = run(t.Context(), t, s, dir, build.Options{})
	if err == nil || strings.Count(err.Error(), "Kubefile:") != 3 {
		t.Errorf("bad references: %v", err)
	}
	clean(t, s)
}

// Each instruction checks its own checksum, whatever the others of the same URL
// say; the URL is asked once.
func TestCopyURLChecksums(t *testing.T) {
	t.Parallel()
	right, wrong := "--checksum="+digest.FromString("file").String(), "--checksum="+digest.FromString("other").String()
	for name, tc := range map[string]struct {
		flags []string // of one COPY each
		bad   []int    // lines with a fault
	}{
		"none, right":  {flags: []string{"", right}},
		"right, none":  {flags: []string{right, ""}},
		"none, wrong":  {flags: []string{"", wrong}, bad: []int{3}},
		"wrong, none":  {flags: []string{wrong, ""}, bad: []int{2}},
		"right, wrong": {flags: []string{right, wrong}, bad: []int{3}},
		"wrong, wrong": {flags: []string{wrong, wrong}, bad: []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, "file") }))
			text := "FROM scratch\n"
			for i, f := range tc.flags {
				text += fmt.Sprintf("COPY %s %s/file dir%d\n", f, srv.URL, i)
			}
			s := open(t)
			_, err := run(t.Context(), t, s, write(t, map[string]string{"Kubefile": text}), build.Options{Scan: "off"})
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			var want []string
			for _, line := range tc.bad {
				want = append(want, fmt.Sprintf("Kubefile:%d: COPY: %s/file: its checksum is %s, not %s", line, srv.URL, digest.FromString("file"), digest.FromString("other")))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if asked != 1 {
				t.Errorf("%d requests, want 1", asked)
			}
		})
	}
}
