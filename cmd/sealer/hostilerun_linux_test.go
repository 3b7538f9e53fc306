package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/clusterimage/sealer/cmd/sealer/internal/hostile"
)

// hostileMemory is the most memory that a command may take, in KiB: Go ends with
// a trace beyond it. The templates of a chart may take 512 MiB.
const hostileMemory = 1500 << 10

// secret stands in the files of the machine. It must not come into a store.
const secret = "A-FILE-OF-THE-MACHINE"

// A hostileRun is one case in a directory of its own: the command runs in in,
// and victim must stay as it is.
type hostileRun struct {
	hostile.Case
	ctx      context.Context
	dir      string
	mounts   bool // this process may mount in a namespace of its own
	failures []string

	registry string

	mu    sync.Mutex
	other []string // requests that another host got
}

func (r *hostileRun) failf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *hostileRun) path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

// run makes the input, runs the command and looks at all that it may have done.
func (r *hostileRun) run() {
	for _, name := range []string{"victim/file", "victim/secret", "secret"} {
		hostile.Write(r.dir, name, secret)
	}
	if err := errors.Join(os.Mkdir(r.path("victim", "dir"), 0o755), os.Mkdir(r.path("in"), 0o755), os.Mkdir(r.path("run"), 0o700)); err != nil {
		r.failf("%v", err)
		return
	}
	before := r.machine()
	other := httptest.NewServer(http.HandlerFunc(r.otherHost))
	defer other.Close()
	places := hostile.Places{Victim: r.path("victim"), Other: strings.TrimPrefix(other.URL, "http://")}
	if r.Registry != nil {
		s := httptest.NewServer(r.Registry(&hostile.Registry{Places: places}))
		defer s.CloseClientConnections()
		r.registry = strings.TrimPrefix(s.URL, "http://")
	}
	auth := base64.StdEncoding.EncodeToString([]byte("joe:" + hostile.Password))
	hostile.Write(r.dir, "auth.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.registry, auth))
	if r.Make != nil {
		r.Make(r.path("in"), places)
	}

	if r.First != nil {
		if out, code := r.sealer(r.First...); code != 0 {
			r.failf("sealer %q: exit code %d:\n%s", r.First, code, out)
		}
	}
	out, code := r.sealer(r.replaced(r.Args)...)
	if code != r.Exit || !strings.Contains(out, r.Text) {
		r.failf("exit code %d, want %d with %q:\n%s", code, r.Exit, r.Text, lastBytes(out, 1500))
	}
	if code == 0 && r.Image != "" {
		r.use(r.replaced([]string{r.Image})[0])
	}
	if code != 0 && r.Args[0] == "load" && r.First == nil {
		r.nothingLeft()
	}
	if after := r.machine(); after != before {
		r.failf("files outside have changed:\n%s\nwere:\n%s", after, before)
	}
	r.nothingRead()
	r.requests()
	_ = filepath.WalkDir(r.dir, func(name string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(name, 0o700) // a layer may have said otherwise, and the test must remove it
		}
		return nil
	})
}

func (r *hostileRun) replaced(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "{registry}", r.registry)
	}
	return out
}

// use does with a taken image all that users do with one.
func (r *hostileRun) use(image string) {
	hostile.Write(r.dir, "next/Kubefile", "FROM "+image+"\nCOPY new l\nCOPY new d\nCOPY new x\n")
	hostile.Write(r.dir, "next/new", "new")
	steps := [][]string{{"verify", image}, {"build", "-q", "--pull", "never", "--scan", "off", "-t", "evil.example/next:1", r.path("next")}}
	if r.mounts {
		hostile.Write(r.dir, "next/Kubefile", "FROM "+image+"\nCOPY new l\nCOPY new d\nCOPY new x\nRUN true\n")
		steps = append(steps, []string{"mount", "evil.example/next:1", r.path("mounted")})
	}
	for _, args := range steps {
		if out, code := r.sealer(args...); code != 0 {
			r.failf("sealer %q: exit code %d:\n%s", args, code, lastBytes(out, 1500))
		}
	}
}

// sealer runs a command in namespaces where its mounts end with it, and looks at
// its output.
func (r *hostileRun) sealer(args ...string) (output string, code int) {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
	defer cancel()
	limit := fmt.Sprintf("ulimit -d %d; ", hostileMemory)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limit + `exec sealer "$@"`, "sh"}, args...)...)
	cmd.Dir = r.path("in")
	cmd.Env = append(os.Environ(), "SEALER_ROOT="+r.path("store"), "HOME="+r.path("home"), "XDG_RUNTIME_DIR="+r.path("run"), "REGISTRY_AUTH_FILE="+r.path("auth.json"),
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1", "GORACE=atexit_sleep_ms=0")
	if r.mounts {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		r.failf("sealer %q did not end:\n%s", args, lastBytes(string(out), 1500))
	case cmd.ProcessState == nil:
		r.failf("sealer %q: %v", args, err)
		return "", -1
	}
	text := string(out)
	if strings.Contains(text, "goroutine ") {
		r.failf("sealer %q: %s", args, text)
	}
	for _, s := range []string{hostile.Password, base64.StdEncoding.EncodeToString([]byte("joe:" + hostile.Password)), secret} {
		if strings.Contains(text, s) {
			r.failf("sealer %q prints %s:\n%s", args, s, text)
		}
	}
	if i := strings.IndexFunc(text, func(c rune) bool {
		return c != '\n' && c != '\t' && unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)
	}); i >= 0 {
		r.failf("sealer %q prints a control character: %q", args, text[i:min(len(text), i+80)])
	}
	return text, cmd.ProcessState.ExitCode()
}

// raceDetector reports whether this program has the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// machine describes the files outside of the store.
func (r *hostileRun) machine() string {
	var b strings.Builder
	err := filepath.WalkDir(r.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(r.dir, name)
		if rel != "." && rel != "secret" && rel != "victim" && !strings.HasPrefix(rel, "victim/") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		if e.Type().IsRegular() {
			content, err = os.ReadFile(name)
		}
		st := fi.Sys().(*syscall.Stat_t)
		fmt.Fprintln(&b, rel, fi.Mode(), st.Uid, st.Gid, uint64(st.Nlink)*uint64(st.Mode&syscall.S_IFREG>>15), string(content))
		return err
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// nothingLeft fails when a failed load has left something in the store.
func (r *hostileRun) nothingLeft() {
	for _, dir := range []string{"image/blobs/sha256", "data/overlay2", "tmp"} {
		entries, err := os.ReadDir(r.path("store", dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.failf("%v", err)
		}
		for _, e := range entries {
			r.failf("the store has %s/%s after a load that failed", dir, e.Name())
		}
	}
}

// nothingRead fails when the store has the content of the machine's files.
func (r *hostileRun) nothingRead() {
	err := filepath.WalkDir(r.path("store"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // a directory of mode 0 is closed to its own owner
		}
		b, err := os.ReadFile(name)
		if err == nil && bytes.Contains(b, []byte(secret)) {
			r.failf("the store has the content of a file outside: %s", name)
		}
		return nil
	})
	if err != nil {
		r.failf("%v", err)
	}
}

// otherHost is a server that no command may give credentials to.
func (r *hostileRun) otherHost(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.other = append(r.other, fmt.Sprintf("%s %s %q", q.Method, q.URL, q.Header["Authorization"]))
	fmt.Fprint(w, `{"token":"a","access_token":"a"}`)
}

// requests fails when another host got credentials, or anything without a
// registry that sent the command there.
func (r *hostileRun) requests() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.other {
		if r.Registry == nil || !strings.HasSuffix(q, " []") {
			r.failf("another host got %s", q)
		}
	}
}

func lastBytes(s string, n int) string { return s[max(0, len(s)-n):] }
