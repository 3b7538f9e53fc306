package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain runs several scripts for each processor, because they wait for the
// disk and for other programs most of the time. -parallel wins.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"sealer": func() { os.Exit(run()) },
	})
}

// TestScripts runs testdata/script/*.txtar with this binary as sealer. Each
// script has its own store, and a proxy address at which nothing listens, so that
// a stray call to the network fails at once.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SEALER_ROOT", filepath.Join(e.WorkDir, ".store"))
			e.Setenv("REPO", repo)
			e.Setenv("CRASHES", cmp.Or(os.Getenv("SEALER_CRASH"), "9"))
			if cache, err := os.UserCacheDir(); err == nil { // a compiler in a script starts warm
				e.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")))
			}
			e.Setenv("HOME", filepath.Join(e.WorkDir, ".home"))
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, ".run"))
			for _, k := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
				e.Setenv(k, "http://127.0.0.1:1")
			}
			e.Setenv("NO_PROXY", "127.0.0.1,localhost")
			if err := os.Mkdir(filepath.Join(e.WorkDir, ".run"), 0o700); err != nil {
				return err
			}
			e.Values[upstreamsKey] = upstreams{}
			e.Values[chartReposKey] = map[string]*chartRepo{}
			e.Values[machinesKey] = map[string]*fakeMachine{}
			return collectRaces(e)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":  exitcode,
			"upstream":  startUpstream,
			"fault":     injectFault,
			"attach":    attach,
			"lose":      loseContent,
			"requests":  countRequests,
			"sent":      countBytes,
			"notemps":   noTemporaries,
			"ready":     waitReady,
			"chartpush": chartpush,
			"chartrepo": chartrepo,
			"cosign":    cosign,
			"cluster":   startCluster,
			"kubeapi":   startKubeAPI,
			"snapshot":  snapshot,
			"crashrun":  crashrun,
			"get":       get,
			"tty":       tty,
			"machine":   startMachine,
			"machines":  changeMachine,
		},
		Condition:          condition,
		RequireUniqueNames: true,
		UpdateScripts:      os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// collectRaces fails a script at its end when a sealer built with -race has
// reported a data race. The exit code of a race would satisfy a line that wants
// sealer to fail. It also removes the one second that such a program sleeps at
// its end, which is most of the time of all scripts.
func collectRaces(e *testscript.Env) error {
	dir := filepath.Join(e.WorkDir, ".races")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	e.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(dir, "sealer"))
	e.Defer(func() {
		reports, err := os.ReadDir(dir)
		if err != nil {
			e.T().Fatal(err)
		}
		for _, r := range reports {
			b, err := os.ReadFile(filepath.Join(dir, r.Name()))
			e.T().Fatal(string(b), err)
		}
	})
	return os.Chmod(dir, 0o777) // some scripts run sealer as another user
}

// exitcode CODE PROGRAM ARG... fails unless the program ends with CODE.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE PROGRAM [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// condition evaluates [root]; [mounts], this process may mount in a namespace of
// its own; and [complete], every tool must be present, as in CI.
func condition(cond string) (bool, error) {
	switch cond {
	case "complete":
		return os.Getenv("SEALER_REQUIRE_TOOLS") != "", nil
	case "root":
		return os.Geteuid() == 0, nil
	case "race":
		info, ok := debug.ReadBuildInfo()
		return ok && slices.ContainsFunc(info.Settings, func(b debug.BuildSetting) bool { return b.Key == "-race" && b.Value == "true" }), nil
	case "mounts":
		return os.Geteuid() == 0 && exec.Command("unshare", "-m", "true").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}
