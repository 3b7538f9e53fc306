package remote_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

// served checks that to answers with every blob of c.
func served(t *testing.T, client *remote.Client, up *registrytest.Upstream, name string, c *registrytest.Content) {
	t.Helper()
	s := storetest.New(t)
	d, err := client.Pull(t.Context(), s, up.Ref(name), remote.PullOptions{})
	if err != nil || d.Digest != c.Root.Digest {
		t.Fatalf("pulled back %v, %v, want %v", d, err, c.Root)
	}
	pulled(t, s, c)
}

func TestPush(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	for _, name := range []string{"one:1", "many:1"} {
		d, err := c.Pull(t.Context(), s, from.Ref(name), remote.PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		ops := map[string]int{}
		var last remote.Event
		record := remote.OpenRecord(t.TempDir())
		o := remote.PushOptions{Record: record, Progress: func(e remote.Event) {
			mu.Lock()
			defer mu.Unlock()
			ops[e.Op]++
			if e.Done > last.Done {
				last = e
			}
		}}
		if err := c.Push(t.Context(), s, d, to.Ref(name), o); err != nil {
			t.Fatal(err)
		}
		served(t, c, to, name, from.Content(name))
		if last.Done != last.Total || last.Total == 0 || ops["push"] == 0 {
			t.Errorf("progress ended with %+v, %v", last, ops)
		}
		for _, r := range to.Requests() {
			if r.Method == "PATCH" {
				t.Error("an upload took a PATCH, want POST and PUT")
			}
		}
		// Again: one request, and one for each manifest of an index, tell that
		// nothing is to be done.
		to.ResetRequests()
		if err := c.Push(t.Context(), s, d, to.Ref(name), remote.PushOptions{Record: record}); err != nil {
			t.Fatal(err)
		}
		heads := map[string]int{"one:1": 0, "many:1": 2}[name]
		if got := to.Requests(); len(got) != 1+heads || got[0].Status != http.StatusNotModified || got[0].Bytes != 0 || to.Count(registrytest.Manifest, http.MethodHead) != heads {
			t.Errorf("an unchanged push took %+v, want one request, %d for manifests below it, and no bytes", got, heads)
		}
	}
}

// Only what the old manifest does not list is asked for and sent.
func TestPushOfAChange(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	push := func() ocispec.Descriptor {
		t.Helper()
		d, err := c.Pull(t.Context(), s, from.Ref("many:1"), remote.PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), remote.PushOptions{}); err != nil {
			t.Fatal(err)
		}
		return d
	}
	push()
	changed := images()[1]
	changed.Revision = 1 // new configs, the same layers
	if _, err := from.Add(changed); err != nil {
		t.Fatal(err)
	}
	to.ResetRequests()
	push()
	if n := to.Count(registrytest.Blob, "HEAD"); n != 0 {
		t.Errorf("%d blobs were asked for by HEAD; a POST asks and begins the upload", n)
	}
	if n := to.Count(registrytest.Upload, "PUT"); n != 2 {
		t.Errorf("%d blobs were sent, want the 2 new configs", n)
	}
	served(t, c, to, "copy:1", from.Content("many:1"))
}

// A registry that refuses the manifest has lost what its old one lists: then
// every blob is asked for.
func TestPushToARegistryThatLies(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	one := from.Content("one:1")
	// The old manifest lists all blobs of the new one; none of them is there.
	old := append([]byte(" "), one.Blobs[one.Root.Digest]...)
	to.SetManifest("library/copy", "1", platform.MediaTypeDockerManifest, old)
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	d, err := c.Pull(t.Context(), s, from.Ref("one:1"), remote.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), remote.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	r := to.Ref("copy@" + d.Digest.String())
	if _, err := c.Pull(t.Context(), storetest.New(t), r, remote.PullOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPushMounts(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Auth: registrytest.Auth{Scheme: registrytest.Bearer}})
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	d, err := c.Pull(t.Context(), s, from.Ref("many:1"), remote.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mount := map[digest.Digest]string{}
	for b := range from.Content("many:1").Blobs {
		mount[b] = "library/many"
	}
	l, _ := largest(from.Content("many:1"))
	mount[l.Digest] = "library/none" // not there: sent
	to.ResetRequests()
	if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), remote.PushOptions{MountFrom: mount}); err != nil {
		t.Fatal(err)
	}
	if n := to.Count(registrytest.Upload, "PUT"); n != 1 {
		t.Errorf("%d blobs were sent, want the one that could not be mounted", n)
	}
	served(t, c, to, "copy:1", from.Content("many:1"))
}

func TestPushFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault registrytest.Fault
		want  error
	}{
		"503 to POST":        {registrytest.Fault{On: registrytest.Upload, Method: http.MethodPost, Times: 2, Do: registrytest.Status(503)}, nil},
		"503 to PUT":         {registrytest.Fault{On: registrytest.Upload, Method: http.MethodPut, Times: 2, Do: registrytest.Status(503)}, nil},
		"429 to PUT":         {registrytest.Fault{On: registrytest.Upload, Method: http.MethodPut, Times: 1, Do: registrytest.Status(429, "Retry-After", "0")}, nil},
		"cut":                {registrytest.Fault{On: registrytest.Upload, Method: http.MethodPut, Times: 1, Do: registrytest.Cut(0)}, nil},
		"503 to a manifest":  {registrytest.Fault{On: registrytest.Manifest, Method: http.MethodPut, Times: 1, Do: registrytest.Status(503)}, nil},
		"denied":             {registrytest.Fault{On: registrytest.Upload, Do: registrytest.Status(403)}, remote.ErrUnauthorized},
		"manifest denied":    {registrytest.Fault{On: registrytest.Manifest, Method: http.MethodPut, Do: registrytest.Status(401)}, remote.ErrUnauthorized},
		"no such repository": {registrytest.Fault{On: registrytest.Upload, Do: registrytest.Status(404)}, remote.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := newUpstream(t, registrytest.Options{})
			to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
			s, c := storetest.New(t), newClient(t, options(t, from, to))
			d, err := c.Pull(t.Context(), s, from.Ref("one:1"), remote.PullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			to.Inject(tc.fault)
			if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), remote.PushOptions{}); !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if tc.want == nil {
				served(t, c, to, "copy:1", from.Content("one:1"))
			}
		})
	}
}

func TestPushOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	// Sparse: one platform of two is in the store.
	d, err := c.Pull(t.Context(), s, from.Ref("many:1"), remote.PullOptions{Platforms: []ocispec.Platform{{OS: "linux", Architecture: "amd64"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), remote.PushOptions{}); err == nil {
		t.Error("an index with a manifest missing was pushed")
	}
	if n := to.Count(registrytest.Upload); n != 0 {
		t.Errorf("%d requests to upload before it was noticed", n)
	}
}

// A tag beside a digest is never passed over in silence: the push is refused,
// before the target is asked for anything.
func TestPushToATagAndADigest(t *testing.T) {
	t.Parallel()
	from := newUpstream(t, registrytest.Options{})
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, from, to))
	d, err := c.Pull(t.Context(), s, from.Ref("one:1"), remote.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byDigest := to.Ref("one@" + d.Digest.String())
	if err := c.Push(t.Context(), s, d, byDigest, remote.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	to.ResetRequests()
	err = c.Push(t.Context(), s, d, to.Ref("one:new@"+d.Digest.String()), remote.PushOptions{})
	if err == nil || !strings.Contains(err.Error(), "a tag or a digest, not both") {
		t.Errorf("a tag and a digest: %v", err)
	}
	other := to.Ref("one@" + digest.FromString("other").String())
	if err := c.Push(t.Context(), s, d, other, remote.PushOptions{}); !errors.Is(err, remote.ErrDigest) {
		t.Errorf("another image's digest: %v", err)
	}
	if got := to.Requests(); len(got) != 0 {
		t.Errorf("refused pushes asked for %+v", got)
	}
}
