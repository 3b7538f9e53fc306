package mirror_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
)

var amd64 = ocispec.Platform{OS: "linux", Architecture: "amd64"}

// newClient returns a client to which the upstreams may be insecure.
func newClient(t *testing.T, ups ...*registrytest.Upstream) *remote.Client {
	t.Helper()
	o := remote.Options{AuthFile: emptyAuth(t), Backoff: time.Millisecond, Retries: 2}
	for _, u := range ups {
		o.Insecure = append(o.Insecure, u.Host())
	}
	c, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func emptyAuth(t *testing.T) string {
	name := t.TempDir() + "/auth.json"
	if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func requests(u *registrytest.Upstream, names ...string) []mirror.Request {
	var out []mirror.Request
	for i, n := range names {
		out = append(out, mirror.Request{Reference: u.Ref(n), Asked: []string{"manifests/imageList:" + string(rune('1'+i))}})
	}
	return out
}

// whole checks that s holds every byte of each image that r says is there.
func whole(t *testing.T, s *store.Store, r *mirror.Result) {
	t.Helper()
	for _, im := range r.Images {
		if im.Err != nil {
			continue
		}
		for _, d := range append(append([]ocispec.Descriptor{}, im.Manifests...), im.Blobs...) {
			f, err := s.OpenBlob(t.Context(), d.Digest)
			if err != nil {
				t.Fatalf("%s: %v", im.Reference, err)
			}
			b, err := io.ReadAll(f)
			f.Close()
			if err != nil || digest.FromBytes(b) != d.Digest || int64(len(b)) != d.Size {
				t.Errorf("%s: blob %s has %d bytes of digest %s, %v", im.Reference, d.Digest, len(b), digest.FromBytes(b), err)
			}
		}
	}
}

func upstream(t *testing.T) *registrytest.Upstream {
	return registrytest.New(t, registrytest.Options{Images: []registrytest.Image{
		{Name: "nginx:1.25", Platforms: []string{"linux/amd64", "linux/arm64"}, Attestation: true, Layers: registrytest.Layers("base", "nginx")},
		{Name: "redis:7", Docker: true, Platforms: []string{"linux/amd64", "linux/arm64"}, Layers: registrytest.Layers("base", "redis")},
		{Name: "quay.io/a/b:v1", Layers: registrytest.Layers("base", "b")},
		{Name: "pause:3", Docker: true, Layers: []registrytest.Layer{{Name: "pause", Size: 300 << 10}}},
	}})
}

func TestMirrorColdWarmAndMoved(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	reqs := requests(up, "nginx:1.25", "redis:7", "a/b:v1", "pause:3", "nginx@"+up.Content("nginx:1.25").Root.Digest.String())
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}}

	r, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, s, r)
	if got := len(r.Images[0].Manifests); got != 2 {
		t.Errorf("nginx has %d manifests, want the index and amd64's", got)
	}
	// base is shared by three images: 4 configs, base, nginx, redis, b, pause.
	if got := up.Count(registrytest.Blob, "GET"); got != 9 {
		t.Errorf("%d blobs were asked for, want 9", got)
	}
	if r.Fetched.Blobs != 9+6 || r.Reused.Blobs != 0 {
		t.Errorf("fetched %+v, reused %+v", r.Fetched, r.Reused)
	}
	doc := r.Document(nil)
	if _, _, err := doc.Encode(); err != nil {
		t.Fatal(err)
	}
	if len(doc.Blobs) != 15 || len(doc.Repositories) != 4 {
		t.Errorf("the document has %d blobs in %d repositories", len(doc.Blobs), len(doc.Repositories))
	}

	// Warm: one question for each tag, nothing for the digest, nothing else.
	up.ResetRequests()
	o.Known = mirror.KnownFrom([]*tree.Document{doc})
	o.Below = []*tree.Document{doc}
	r, err = mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	if manifests, all := up.Count(registrytest.Manifest, "GET"), len(up.Requests()); manifests != 4 || all != 4 {
		t.Errorf("a warm run asked %d times, %d of them for a manifest; want 4 and 4", all, manifests)
	}
	if r.Fetched.Blobs != 0 || r.Reused.Blobs != 15 {
		t.Errorf("a warm run fetched %+v and reused %+v", r.Fetched, r.Reused)
	}
	if again := r.Document([]*tree.Document{doc}); again != nil {
		t.Errorf("a layer that adds nothing: %+v", again)
	}

	// A tag that moved is noticed, and only what changed is fetched.
	up.ResetRequests()
	if _, err := up.Add(registrytest.Image{Name: "quay.io/a/b:v1", Layers: registrytest.Layers("base", "b"), Revision: 1}); err != nil {
		t.Fatal(err)
	}
	r, err = mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, s, r)
	if got := up.Count(registrytest.Blob, "GET"); got != 1 {
		t.Errorf("%d blobs were asked for, want the new config", got)
	}
	moved := r.Document([]*tree.Document{doc})
	if len(moved.Blobs) != 2 || len(moved.Repositories) != 1 || moved.Repositories[0].Tags[0].Digest != up.Content("quay.io/a/b:v1").Root.Digest {
		t.Errorf("the layer above: %+v", moved)
	}
}

func TestOffline(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	reqs := requests(up, "nginx:1.25", "redis:7")
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}}
	first, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	up.ResetRequests()
	o.Offline = true
	o.Known = mirror.KnownFrom([]*tree.Document{first.Document(nil)})
	r, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Document(nil), r.Document(nil)); diff != "" {
		t.Error(diff)
	}
	// Another platform, another image: each is missing, and said so.
	o.Platforms = []ocispec.Platform{{OS: "linux", Architecture: "arm64"}}
	_, err = mirror.Mirror(t.Context(), c, s, append(reqs, requests(up, "pause:3")...), o)
	wantLines(t, err, "nginx:1.25 (manifests/imageList:1)", "redis:7", "pause:3")
	if !errors.Is(err, remote.ErrOffline) {
		t.Errorf("error %v, want ErrOffline", err)
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("%d requests while offline", n)
	}
}

// wantLines checks that err has one line for each of parts, in order.
func wantLines(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that names %q", parts)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(parts) {
		t.Fatalf("want %d lines:\n%v", len(parts), err)
	}
	for i, p := range parts {
		if !strings.Contains(lines[i], p) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], p)
		}
	}
}

func TestPlanWritesNothing(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	reqs := requests(up, "nginx:1.25", "redis:7", "a/b:v1", "pause:3")
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}}
	plan, err := mirror.Plan(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range plan.Images[0].Manifests {
		if has, err := s.HasBlob(t.Context(), d.Digest); has || err != nil {
			t.Errorf("the plan wrote %s (%v)", d.Digest, err)
		}
	}
	r, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan.Fetched, r.Fetched); diff != "" {
		t.Errorf("planned and fetched differ:\n%s", diff)
	}
}

func TestAllFailuresInOrder(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	reqs := requests(up, "no/such:1", "nginx:1.25", "redis:none", "a/b:v1", "pause:3")
	bad := up.Content("pause:3").Manifests[0]
	up.Inject(registrytest.Fault{On: registrytest.Manifest, Repository: "library/pause", Do: registrytest.Corrupt()})
	_ = bad
	o := mirror.Options{Platforms: []ocispec.Platform{{OS: "linux", Architecture: "arm64"}}}
	r, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	wantLines(t, err, "no/such:1 (manifests/imageList:1)", "redis:none (manifests/imageList:3)", "a/b:v1", "pause:3")
	if !errors.Is(err, remote.ErrNotFound) || !errors.Is(err, remote.ErrPlatform) || !errors.Is(err, remote.ErrDigest) {
		t.Errorf("error %v", err)
	}
	whole(t, s, r)
	o.AllowMissing = true
	r, err = mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil || r.Images[0].Err == nil || r.Images[1].Err != nil {
		t.Errorf("with AllowMissing: %v, %v", err, r.Images)
	}
	if doc := r.Document(nil); len(doc.Repositories) != 1 {
		t.Errorf("the document has %d repositories, want nginx's", len(doc.Repositories))
	}
}

func TestCollisionsAndPrivate(t *testing.T) {
	t.Parallel()
	one := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{{Name: "tools/x:1", Layers: registrytest.Layers("one")}, {Name: "same/y:1"}}})
	two := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{{Name: "tools/x:1", Layers: registrytest.Layers("two")}, {Name: "same/y:1"}}})
	private := ref.Reference{Registry: ref.DefaultPrivate, Repository: "tools/x", Tag: "1"}
	other := private
	other.Repository = "tools/z"
	s, c := storetest.New(t), newClient(t, one, two)
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}}
	clash := append(requests(one, "tools/x:1"), requests(two, "tools/x:1")...)
	// What asks for that name in the private registry is no third image.
	_, err := mirror.Mirror(t.Context(), c, s, append(slices.Clone(clash), mirror.Request{Reference: private}), o)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("one collision is reported as %v", err)
	}
	if !errors.Is(err, mirror.ErrCollision) || !strings.Contains(err.Error(), one.Host()) || !strings.Contains(err.Error(), two.Host()) {
		t.Errorf("error %v, want a collision of both", err)
	}
	if n := one.Count(registrytest.Blob) + two.Count(registrytest.Blob); n > 2 {
		t.Errorf("%d blobs were asked for before the collision was reported, want the configs at most", n)
	}
	o.Naming = tree.NamingFull
	if _, err := mirror.Mirror(t.Context(), c, s, clash, o); err != nil {
		t.Errorf("with full names: %v", err)
	}
	o.Naming = tree.NamingPath
	clash[1].Reference, clash[1].Source = other, two.Ref("tools/x:1")
	reqs := append(clash, requests(one, "same/y:1")...)
	reqs = append(reqs, requests(two, "same/y:1")...)
	reqs = append(reqs, mirror.Request{Reference: private}, mirror.Request{Reference: other})
	r, err := mirror.Mirror(t.Context(), c, s, reqs, o)
	if err != nil {
		t.Fatal(err)
	}
	doc := r.Document(nil)
	var names []string
	for _, rep := range doc.Repositories {
		names = append(names, rep.Name)
	}
	if diff := cmp.Diff([]string{"same/y", "tools/x", "tools/z"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tree.Sources(tree.SortedSources([]ref.Reference{one.Ref("same/y:1"), two.Ref("same/y:1")})), doc.Repositories[0].Tags[0].Sources); diff != "" {
		t.Error(diff)
	}
	// What the private registry has below need not be mirrored again; what it
	// does not have is named.
	o.Below = []*tree.Document{doc}
	missing := private
	missing.Tag = "2"
	r, err = mirror.Mirror(t.Context(), c, s, []mirror.Request{{Reference: private}, {Reference: missing, Asked: []string{"a.yaml:4"}}}, o)
	wantLines(t, err, "sea.hub:5000/tools/x:2 (a.yaml:4)")
	if !errors.Is(err, mirror.ErrNotMirrored) || !r.Images[0].SatisfiedBelow {
		t.Errorf("error %v, images %+v", err, r.Images)
	}
	// Another source on a name of a layer below.
	_, err = mirror.Mirror(t.Context(), c, s, requests(two, "tools/x:1"), o)
	if !errors.Is(err, mirror.ErrCollision) {
		t.Errorf("error %v, want a collision with the layer below", err)
	}
}

func TestTagAndDigestAndLock(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	old := up.Content("nginx:1.25").Root.Digest
	if _, err := up.Add(registrytest.Image{Name: "nginx:1.25", Revision: 2, Platforms: []string{"linux/amd64", "linux/arm64"}}); err != nil {
		t.Fatal(err)
	}
	pinned := up.Ref("nginx:1.25")
	pinned.Digest = old
	locked := mirror.Request{Reference: up.Ref("nginx:1.25"), Digest: old}
	for _, q := range []mirror.Request{{Reference: pinned}, locked} {
		r, err := mirror.Mirror(t.Context(), c, s, []mirror.Request{q}, mirror.Options{Platforms: []ocispec.Platform{amd64}})
		if err != nil {
			t.Fatal(err)
		}
		doc := r.Document(nil).Repositories[0]
		if doc.Tags[0].Digest != old || len(doc.Revisions) != 2 {
			t.Errorf("%+v", doc)
		}
	}
}

func TestAllPlatforms(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	r, err := mirror.Mirror(t.Context(), c, s, requests(up, "nginx:1.25"), mirror.Options{AllPlatforms: true})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, s, r)
	var got []string
	for _, p := range r.Images[0].Platforms {
		got = append(got, platform.String(p))
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Error(diff)
	}
	if want := up.Content("nginx:1.25"); len(want.Blobs) != len(r.Images[0].Manifests)+len(r.Images[0].Blobs) {
		t.Errorf("%d manifests and %d blobs of %d", len(r.Images[0].Manifests), len(r.Images[0].Blobs), len(want.Blobs))
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s, c := storetest.New(t), newClient(t, up)
	ctx, cancel := context.WithCancel(t.Context())
	up.Inject(registrytest.Fault{On: registrytest.Blob, Do: registrytest.Edit(func(status int, _ http.Header, body []byte) (int, []byte) {
		cancel()
		return status, body
	})})
	_, err := mirror.Mirror(ctx, c, s, requests(up, "pause:3"), mirror.Options{Platforms: []ocispec.Platform{amd64}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
