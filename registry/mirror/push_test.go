package mirror_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store/storetest"
)

func TestParsePrefix(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]mirror.Prefix{
		"localhost:5000":     {Registry: "localhost:5000"},
		"reg.example/a/b":    {Registry: "reg.example", Repository: "a/b"},
		"127.0.0.1:5000/a/":  {Registry: "127.0.0.1:5000", Repository: "a"},
		"docker.io/someone":  {Registry: "docker.io", Repository: "someone"},
		"someone":            {},
		"":                   {},
		"https://reg.io":     {},
		"reg.example/A":      {},
		"reg.example/a:1":    {},
		"reg.example/a@b":    {},
		"reg.example/../etc": {},
	} {
		got, err := mirror.ParsePrefix(in)
		if (err == nil) != (want != mirror.Prefix{}) || err == nil && got != want {
			t.Errorf("ParsePrefix(%q) = %+v, %v", in, got, err)
		}
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	target := registrytest.New(t, registrytest.Options{})
	s, c := storetest.New(t), newClient(t, up, target)
	pinned := up.Ref("redis@" + up.Content("redis:7").Root.Digest.String())
	reqs := append(requests(up, "nginx:1.25", "a/b:v1", "pause:3"), mirror.Request{Reference: pinned})
	r, err := mirror.Mirror(t.Context(), c, s, reqs, mirror.Options{Platforms: []ocispec.Platform{amd64}})
	if err != nil {
		t.Fatal(err)
	}
	docs := []*tree.Document{r.Document(nil)}
	to, err := mirror.ParsePrefix(target.Host() + "/team")
	if err != nil {
		t.Fatal(err)
	}
	// A registry that takes no sparse index: nginx's tag gets one of amd64 alone;
	// redis, which has only a digest, cannot be pushed.
	target.Inject(registrytest.Fault{On: registrytest.Manifest, Method: "PUT", Reference: "1.25", Times: 1, Do: registrytest.Status(400)})
	target.Inject(registrytest.Fault{On: registrytest.Manifest, Method: "PUT", Reference: pinned.Digest.String(), Do: registrytest.Status(400)})
	pushed, err := mirror.Push(t.Context(), c, s, docs, to, mirror.PushOptions{})
	if !errors.Is(err, remote.ErrSparse) {
		t.Errorf("error %v, want ErrSparse for redis", err)
	}
	var names []string
	for _, p := range pushed {
		names = append(names, fmt.Sprintf("%s:%s %v", p.Reference.Repository, p.Reference.Tag, p.Reduced))
		back, _, err := c.Manifest(t.Context(), p.Reference)
		if err != nil || back.Digest != p.Digest {
			t.Errorf("%s is %s, %v, want %s", p.Reference, back.Digest, err, p.Digest)
		}
	}
	if diff := cmp.Diff([]string{"team/a/b:v1 false", "team/library/nginx:1.25 true", "team/library/pause:3 false"}, names); diff != "" {
		t.Error(diff)
	}
	// What one repository has, another mounts: base is sent once.
	if n := target.Count(registrytest.Upload, "PUT"); n != 4+5 {
		t.Errorf("%d blobs were sent, want 4 configs and 5 layers", n)
	}
	// Again: nothing is sent.
	target.ResetRequests()
	target.ClearFaults()
	if _, err := mirror.Push(t.Context(), c, s, docs, to, mirror.PushOptions{}); err != nil {
		t.Error(err)
	}
	if n := target.Count(registrytest.Upload, "PUT"); n != 0 {
		t.Errorf("%d blobs were sent again", n)
	}
	// With all platforms the indexes are whole, and keep their digests.
	r, err = mirror.Mirror(t.Context(), c, s, reqs, mirror.Options{AllPlatforms: true})
	if err != nil {
		t.Fatal(err)
	}
	pushed, err = mirror.Push(t.Context(), c, s, []*tree.Document{r.Document(nil)}, to, mirror.PushOptions{})
	if err != nil || len(pushed) != 4 {
		t.Fatal(pushed, err)
	}
	for _, p := range pushed {
		if p.Reduced {
			t.Errorf("%s was reduced", p.Reference)
		}
	}
}

// Debian's docker-registry, version 2 of the program that most private
// registries are, as source and as target.
func TestDebianRegistry(t *testing.T) {
	t.Parallel()
	host := startDebianRegistry(t)
	up := upstream(t)
	c, err := remote.New(remote.Options{AuthFile: emptyAuth(t), Insecure: []string{up.Host(), "http://" + host}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.New(t)
	reqs := requests(up, "nginx:1.25", "redis:7", "a/b:v1", "pause:3")
	o := mirror.Options{AllPlatforms: true}
	first, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	// It takes no sparse index.
	part, err := mirror.Mirror(t.Context(), c, s, reqs[:1], mirror.Options{Platforms: []ocispec.Platform{amd64}})
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := mirror.Push(t.Context(), c, s, []*tree.Document{part.Document(nil)}, mirror.Prefix{Registry: host, Repository: "part"}, mirror.PushOptions{})
	if err != nil || len(pushed) != 1 {
		t.Fatal(pushed, err)
	}
	pushed, err = mirror.Push(t.Context(), c, s, []*tree.Document{first.Document(nil)}, mirror.Prefix{Registry: host}, mirror.PushOptions{})
	if err != nil || len(pushed) != len(reqs) {
		t.Fatal(pushed, err)
	}
	for i := range reqs {
		reqs[i].Reference.Registry = host
	}
	back := storetest.New(t)
	second, err := mirror.Mirror(t.Context(), c, back, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, back, second)
	if diff := cmp.Diff(first.Document(nil).Blobs, second.Document(nil).Blobs); diff != "" {
		t.Errorf("other blobs came back:\n%s", diff)
	}
}

func startDebianRegistry(t *testing.T) (host string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs another program")
	}
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		if os.Getenv("SEALER_REQUIRE_TOOLS") != "" {
			t.Fatal("docker-registry is not installed: apt-get install docker-registry")
		}
		t.Skip("docker-registry is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: '%s'}\n", dir, host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // any REGISTRY_* variable would be configuration
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for range 200 {
		resp, err := http.Get("http://" + host + "/v2/")
		if err == nil {
			resp.Body.Close()
			return host
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("docker-registry does not answer")
	return ""
}

// A registry that does not serve is one error, and is not asked for each image.
func TestPushToADeadRegistry(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s := storetest.New(t)
	r, err := mirror.Mirror(t.Context(), newClient(t, up), s, requests(up, "nginx:1.25", "redis:7", "a/b:v1", "pause:3"), mirror.Options{AllPlatforms: true})
	if err != nil {
		t.Fatal(err)
	}
	docs := []*tree.Document{r.Document(nil)}
	bad := registrytest.Status(http.StatusBadGateway)
	for name, tc := range map[string]struct {
		faults []registrytest.Fault
		pushed int
		text   string
	}{
		"from the start": {[]registrytest.Fault{{Do: bad}}, 0, "serve: 4 of 4 images are not pushed"},
		"later": {[]registrytest.Fault{
			{Repository: "library/nginx", Do: bad}, {Repository: "library/redis", Do: bad}, {Repository: "library/pause", Do: bad}, {On: registrytest.Ping, Do: bad},
		}, 1, "serve: 3 of 4 images are not pushed"},
		"the first alone": {[]registrytest.Fault{{Repository: "a/b", Do: bad}}, 0, "serve: 4 of 4 images are not pushed"},
		"one of them":     {[]registrytest.Fault{{Repository: "library/nginx", Do: bad}}, 3, "nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := registrytest.New(t, registrytest.Options{TLS: false})
			c, err := remote.New(remote.Options{AuthFile: emptyAuth(t), Insecure: []string{"http://" + target.Host()}, Backoff: time.Millisecond, Retries: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range tc.faults {
				target.Inject(f)
			}
			pushed, err := mirror.Push(t.Context(), c, s, docs, mirror.Prefix{Registry: target.Host()}, mirror.PushOptions{})
			if err == nil || len(pushed) != tc.pushed || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("pushed %d, %v; want %d and one line with %q", len(pushed), err, tc.pushed, tc.text)
			}
			if n := target.Count(registrytest.Any); tc.pushed == 0 && n > 6 {
				t.Errorf("a dead registry was asked %d times", n)
			}
		})
	}
}

// The progress of a push counts each blob once, of an image that goes twice too.
func TestPushProgressCountsOnce(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	target := registrytest.New(t, registrytest.Options{})
	s, c := storetest.New(t), newClient(t, up, target)
	r, err := mirror.Mirror(t.Context(), c, s, requests(up, "nginx:1.25"), mirror.Options{Platforms: []ocispec.Platform{amd64}})
	if err != nil {
		t.Fatal(err)
	}
	target.Inject(registrytest.Fault{On: registrytest.Manifest, Method: "PUT", Reference: "1.25", Times: 1, Do: registrytest.Status(400)})
	doc := r.Document(nil)
	var mu sync.Mutex
	finished := map[digest.Digest]int{}
	var last remote.Event
	pushed, err := mirror.Push(t.Context(), c, s, []*tree.Document{doc}, mirror.Prefix{Registry: target.Host()}, mirror.PushOptions{Progress: func(e remote.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Op != "manifest" {
			finished[e.Digest]++
		}
		last = e
	}})
	if err != nil || len(pushed) != 1 || !pushed[0].Reduced {
		t.Fatal(pushed, err)
	}
	for d, n := range finished {
		if n != 1 {
			t.Errorf("blob %s was counted %d times", d, n)
		}
	}
	if last.Done > last.Total || last.Done == 0 {
		t.Errorf("the progress ended with %+v", last)
	}
}
