package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/build"
)

// age sets the times of all files of a context back, so that the stat cache may
// trust them. The change time cannot be set: it must pass.
func age(t *testing.T, dir string) {
	t.Helper()
	var newest int64
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if st, ok := fi.Sys().(*syscall.Stat_t); err == nil && ok {
			newest = max(newest, st.Ctim.Nano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for time.Now().UnixNano() < newest+int64(60*time.Millisecond) {
		time.Sleep(time.Millisecond) // for the clock, not for another goroutine
	}
}

// TestStatCache builds twice, and once more with a stat cache that was cut.
func TestStatCache(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nCOPY etc .\n", "etc/a": "a", "etc/b/c": "c"})
	age(t, dir)
	one, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Descriptor.Digest != again.Descriptor.Digest {
		t.Errorf("an equal build has another digest: %s, %s", one.Descriptor.Digest, again.Descriptor.Digest)
	}
	stats, err := filepath.Glob(filepath.Join(s.CacheDir(), "stat", "*"))
	if err != nil || len(stats) != 1 {
		t.Fatalf("stat caches: %v, %v", stats, err)
	}
	// A cache that was tampered with, or cut, is not believed.
	if err := os.Truncate(stats[0], 30); err != nil {
		t.Fatal(err)
	}
	if again, err = run(t.Context(), t, s, dir, build.Options{}); err != nil || again.Descriptor.Digest != one.Descriptor.Digest {
		t.Errorf("with a broken stat cache: %v", err)
	}
}

// TestChangeIsSeen changes a file right after a build, to content of the same
// size and with the same modification time.
func TestChangeIsSeen(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nCOPY etc .\n", "etc/a": "old"})
	file := filepath.Join(dir, "etc/a")
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, content := range []string{"old", "new", "old", "abc"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
		r, err := run(t.Context(), t, s, dir, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := tree(t, s, r)["etc/a"]; got != content {
			t.Fatalf("the image has %q, the context %q", got, content)
		}
		d := r.Descriptor.Digest.String()
		if was, ok := digests[content]; ok && was != d {
			t.Errorf("%q: another digest the second time", content)
		}
		digests[content] = d
	}
}

func TestNoCacheRunsAgain(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("RUN as root")
	}
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nARG X=1\nRUN echo $X $(cat /proc/sys/kernel/random/uuid) > id\n"})
	id := func(o build.Options) string {
		t.Helper()
		r, err := run(t.Context(), t, s, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return tree(t, s, r)["id"]
	}
	first := id(build.Options{})
	if again := id(build.Options{}); again != first {
		t.Errorf("an equal RUN ran again: %q, %q", first, again)
	}
	if other := id(build.Options{BuildArgs: map[string]string{"X": "2"}}); !strings.HasPrefix(other, "2 ") {
		t.Errorf("with another argument: %q", other)
	}
	if again := id(build.Options{NoCache: true}); again == first {
		t.Error("--no-cache did not run it again")
	}
}
