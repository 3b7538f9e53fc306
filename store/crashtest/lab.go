package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/registry/registrytest"
)

// Names in the store under test. The kept ones stay through all events.
const (
	keepOne   = "crash.example/keep:1"
	keepTwo   = "crash.example/keep:2"
	keepThree = "crash.example/keep:3" // shares no content: its blobs are damaged
	keepSplit = "crash.example/keep:4" // has blob manifests
)

// A lab has an upstream registry, the inputs of all operations, and counts.
type lab struct {
	sealer, dir string
	env         []string
	up          *registrytest.Upstream
	rng         *rand.Rand
	saved       map[string][]byte // the archives that save must make, by their files
	first       int               // of ops, in this part

	before []string // programs before sealer, of run

	part string
	mu   *sync.Mutex
	counts
}

// counts are printed for each part.
type counts struct {
	events, tooFast, checks, failed, losses, skipped int
}

func newLab(sealer, dir string, rng *rand.Rand) (*lab, error) {
	up, err := registrytest.Start(registrytest.Options{Images: registrytest.Samples()})
	if err != nil {
		return nil, err
	}
	l := &lab{sealer: sealer, dir: dir, up: up, rng: rng, mu: &sync.Mutex{}, saved: map[string][]byte{}}
	conf := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n\n%s", up.Host(), up.RegistriesConf("docker.io", "quay.io", "registry.k8s.io"))
	l.env = append(os.Environ(), "HOME="+dir+"/home", "XDG_RUNTIME_DIR="+dir, "CONTAINERS_REGISTRIES_CONF="+dir+"/registries.conf", "NO_PROXY=*", "no_proxy=*")
	files := map[string]string{"registries.conf": conf}
	for n, images := range []string{"nginx:1.25\n", "nginx:latest\nbusybox:1.36\n", "quay.io/coreos/etcd:v3.5.9\n", "busybox:1.36\n", "registry.k8s.io/pause:3.9\n", "calico/node:v3.27.0\n"} {
		ctx := fmt.Sprintf("ctx%d/", n)
		files[ctx+"Kubefile"] = "FROM scratch\nCOPY files .\nCOPY imageList manifests\nCMD echo " + fmt.Sprint(n) + "\n"
		files[ctx+"imageList"] = images
		for i := range 5 {
			files[ctx+fmt.Sprintf("files/%d", i)] = random(rng, 1000+rng.IntN(300_000))
		}
	}
	for ctx, kubefile := range map[string]string{"ctx6": "FROM " + keepOne + "\nCOPY files more\n", "ctx7": "FROM scratch\nCOPY files .\nRUN cat files/new > made && rm files/0\n"} {
		files[ctx+"/Kubefile"] = kubefile
		files[ctx+"/files/0"] = random(rng, 100_000)
		files[ctx+"/files/new"] = "new"
	}
	for name, content := range files {
		if err := write(filepath.Join(dir, name), content); err != nil {
			return nil, err
		}
	}
	return l, l.seed()
}

// seed makes the archives that load reads, the images that pull gets, and the
// archives that save must make.
func (l *lab) seed() error {
	root := l.dir + "/ref"
	for _, args := range [][]string{
		{"build", "-q", "-t", keepOne, l.dir + "/ctx0"}, {"build", "-q", "-t", l.pulled(), l.dir + "/ctx2"}, {"build", "-q", "-t", "crash.example/load:1", l.dir + "/ctx3"},
		{"save", "-o", l.dir + "/load.tar", "crash.example/load:1"}, {"save", "-o", l.dir + "/keep.tar", keepOne}, {"push", l.pulled()},
		{"build", "-q", "--pull", "never", "-t", "crash.example/delta:1", l.dir + "/ctx6"}, {"save", "-o", l.dir + "/delta.tar", "--without", keepOne, "crash.example/delta:1"},
		{"build", "-q", "-t", keepTwo, l.dir + "/ctx1"}, {"save", "-o", l.dir + "/without.tar", "--without", keepOne, keepTwo},
		{"build", "-q", "--limit", manifestLimit, "-t", keepSplit, l.dir + "/ctx1"}, {"save", "-o", l.dir + "/splitkeep.tar", keepSplit},
		{"build", "-q", "--limit", manifestLimit, "-t", l.splitPulled(), l.dir + "/ctx2"}, {"push", l.splitPulled()}, {"save", "-o", l.dir + "/splitpull.tar", l.splitPulled()},
		{"build", "-q", "--limit", manifestLimit, "-t", "crash.example/splitload:1", l.dir + "/ctx3"}, {"save", "-o", l.dir + "/splitload.tar", "crash.example/splitload:1"},
	} {
		if out, err := l.run(root, args...); err != nil {
			return fmt.Errorf("sealer %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, name := range []string{"keep.tar", "without.tar", "splitkeep.tar"} {
		b, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil {
			return err
		}
		l.saved[name] = b
	}
	for _, name := range []string{"splitkeep.tar", "splitload.tar", "splitpull.tar"} {
		if b, err := os.ReadFile(filepath.Join(l.dir, name)); err != nil || !bytes.Contains(b, []byte("application/vnd.sealer.registry.blobs.v1")) {
			return fmt.Errorf("%s has no blob manifests: %w", name, err)
		}
	}
	return nil
}

func (l *lab) close() { _ = l.up.Close() }

// pulled is the name of the image that pull gets.
func (l *lab) pulled() string { return l.up.Host() + "/x/pull:1" }

// fill makes the kept images in the store at root.
func (l *lab) fill(root string) error {
	for _, args := range [][]string{{"build", "-q", "-t", keepOne, l.dir + "/ctx0"}, {"build", "-q", "-t", keepTwo, l.dir + "/ctx1"}, {"build", "-q", "-t", keepThree, l.dir + "/ctx5"},
		{"build", "-q", "--limit", manifestLimit, "-t", keepSplit, l.dir + "/ctx1"}} {
		if out, err := l.run(root, args...); err != nil {
			return fmt.Errorf("sealer %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// command returns sealer with args on the store at root, behind the programs of
// before.
func (l *lab) command(ctx context.Context, root string, before []string, args ...string) *exec.Cmd {
	all := slices.Concat(before, []string{l.sealer, "--progress", "none"}, args)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Env = append(slices.Clone(l.env), "SEALER_ROOT="+root)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// patience ends a command that hangs.
const patience = 5 * time.Minute

func (l *lab) run(root string, args ...string) (string, error) {
	return l.runBehind(l.before, root, args...)
}

func (l *lab) runBehind(before []string, root string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := l.command(ctx, root, before, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it hangs: %w", err)
	}
	if err != nil || strings.Contains(errs.String(), "goroutine ") {
		return out.String(), errors.Join(err, errors.New(strings.TrimSpace(errs.String())))
	}
	return out.String(), nil
}

// images returns the names in a store with their digests.
func (l *lab) images(root string) (map[string]string, error) {
	out, err := l.run(root, "images", "-o", "json")
	if err != nil {
		return nil, err
	}
	var rows []struct{ Name, Digest string }
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, r := range rows {
		if r.Name != "" && !strings.HasPrefix(r.Name, "<") {
			names[r.Name] = r.Digest
		}
	}
	return names, nil
}

// lost counts a loss and says it.
func (l *lab) lost(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses++
	fmt.Printf("LOSS %s: %s\n", l.part, fmt.Sprintf(format, args...))
}

// check asks that the store at root names the images of want, each with its
// digest and whole, and none but those of may beside them.
func (l *lab) check(event, root string, want map[string]string, may ...string) {
	have, err := l.images(root)
	if err != nil {
		l.lost("%s: images: %v", event, err)
		return
	}
	for name, digest := range want {
		if have[name] != digest {
			l.lost("%s: %s is %q, was %q", event, name, have[name], digest)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok && !slices.Contains(may, name) {
			l.lost("%s: %s is visible", event, name)
		}
	}
	l.verify(event, root, slices.Sorted(maps.Keys(want)))
}

func (l *lab) verify(event, root string, names []string) {
	if len(names) == 0 {
		return
	}
	l.checks += len(names)
	if out, err := l.run(root, append([]string{"verify"}, names...)...); err != nil {
		l.lost("%s: verify: %v\n%s", event, err, out)
	}
}

// report prints the counts of a part and begins the next.
func (l *lab) report(took time.Duration) {
	fmt.Printf("%-10s  %4d events, %4d commands that ended before, %5d checks of images, %d that failed as they must, %d skipped, %d losses, %s\n",
		l.part, l.events, l.tooFast, l.checks, l.failed, l.skipped, l.losses, took.Round(time.Second))
	l.counts = counts{losses: l.losses}
}

func (l *lab) skip(n int, reason string, args ...any) {
	fmt.Printf("SKIPPED %d %s: %s\n", n, l.part, fmt.Sprintf(reason, args...))
	l.skipped += n
}

func random(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
