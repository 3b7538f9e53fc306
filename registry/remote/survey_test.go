package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
)

// wide puts an image of n small layers into s. The last one has the revision.
func wide(t *testing.T, s *store.Store, n, revision int) ocispec.Descriptor {
	t.Helper()
	put := func(mediaType, content string) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(content), Size: int64(len(content))}
		err := s.PutBlob(t.Context(), d, func(w io.Writer) error { _, err := io.WriteString(w, content); return err })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	m.Config = put(ocispec.MediaTypeImageConfig, fmt.Sprintf(`{"v":%d}`, revision))
	for i := range n {
		v := 0
		if i == n-1 {
			v = revision
		}
		m.Layers = append(m.Layers, put(ocispec.MediaTypeImageLayer, fmt.Sprintf("layer %d, %d", i, v)))
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return put(m.MediaType, string(b))
}

// A registry that lacks a part of the protocol, or that lost content, costs
// requests, and never an image.
func TestPushToOddRegistries(t *testing.T) {
	t.Parallel()
	const layers = 30
	put := registrytest.Fault{On: registrytest.Upload, Method: http.MethodPut}
	noMount := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery, r.Form = "", nil
			next.ServeHTTP(w, r)
		})
	}
	refuseMount := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("mount") {
				registrytest.Status(http.StatusBadRequest)(nil).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	deny := func(next http.Handler) http.Handler { // no right to read in another repository
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("from") == "library/wide" {
				registrytest.Status(http.StatusForbidden)(nil).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	post := func(do registrytest.Action) []registrytest.Fault {
		return []registrytest.Fault{{On: registrytest.Upload, Method: http.MethodPost, Do: do}}
	}
	for name, tc := range map[string]struct {
		faults []registrytest.Fault
		sent   int // blobs of the second push, into the same repository
		other  int // blobs of the third push, into another repository
	}{
		"all is well":    {nil, 2, 0},
		"mounts ignored": {post(noMount), 2, layers + 1},
		"mounts refused": {post(refuseMount), 2, layers + 1},
		"not from there": {post(deny), 2, layers + 1},
		"no HEAD": {[]registrytest.Fault{
			{On: registrytest.Blob, Method: http.MethodHead, Do: registrytest.Status(http.StatusMethodNotAllowed)},
			{On: registrytest.Manifest, Method: http.MethodHead, Do: registrytest.Status(http.StatusNotImplemented)},
		}, 2, 0},
		"no list of tags":     {[]registrytest.Fault{{On: registrytest.Tags, Do: registrytest.Status(http.StatusForbidden)}}, 2, 0},
		"list of tags broken": {[]registrytest.Fault{{On: registrytest.Tags, Do: registrytest.Status(http.StatusInternalServerError)}}, 2, 0},
		"noise for tags": {[]registrytest.Fault{{On: registrytest.Tags, Do: registrytest.Edit(
			func(int, http.Header, []byte) (int, []byte) { return 200, []byte(`{"tags":["../../x","",7]}`) })}}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
			s := storetest.New(t)
			o := remote.PushOptions{Record: remote.OpenRecord(t.TempDir())}
			for _, f := range tc.faults {
				to.Inject(f)
			}
			push := func(d ocispec.Descriptor, name string) int {
				t.Helper()
				to.ResetRequests()
				if err := newClient(t, options(t, to)).Push(t.Context(), s, d, to.Ref(name), o); err != nil {
					t.Fatal(err)
				}
				back := storetest.New(t)
				if _, err := newClient(t, options(t, to)).Pull(t.Context(), back, to.Ref(name), remote.PullOptions{}); err != nil {
					t.Fatal(err)
				}
				return to.Count(put.On, put.Method)
			}
			if n := push(wide(t, s, layers, 0), "wide:1"); n != layers+1 {
				t.Errorf("the first push sent %d blobs, want %d", n, layers+1)
			}
			second := wide(t, s, layers, 1)
			if n := push(second, "wide:2"); n != tc.sent {
				t.Errorf("the second push sent %d blobs, want %d", n, tc.sent)
			}
			if n := push(second, "copy:2"); n != tc.other {
				t.Errorf("the push to another repository sent %d blobs, want %d", n, tc.other)
			}
			// A machine without a record sends nothing again either.
			o.Record = nil
			if n := push(second, "wide:3"); n > 0 && !strings.Contains(name, "tags") {
				t.Errorf("without a record %d blobs were sent", n)
			}
		})
	}
}

// A registry whose manifest is there and whose blobs are gone refuses the new
// manifest: each blob is asked for then.
func TestPushAfterBlobsAreGone(t *testing.T) {
	t.Parallel()
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, to))
	o := remote.PushOptions{Record: remote.OpenRecord(t.TempDir())}
	if err := c.Push(t.Context(), s, wide(t, s, 20, 0), to.Ref("wide:1"), o); err != nil {
		t.Fatal(err)
	}
	happened := to.Inject(registrytest.Fault{On: registrytest.Manifest, Method: http.MethodPut, Reference: "2", Times: 1,
		Do: registrytest.Status(http.StatusBadRequest)})
	to.ResetRequests()
	if err := c.Push(t.Context(), s, wide(t, s, 20, 1), to.Ref("wide:2"), o); err != nil {
		t.Fatal(err)
	}
	if n := to.Count(registrytest.Upload, "POST"); happened() != 1 || n < 21 {
		t.Errorf("%d blobs were asked for after the manifest was refused, want all 21", n)
	}
	// A record of a manifest that is gone costs one request.
	other := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	record := remote.OpenRecord(t.TempDir())
	o = remote.PushOptions{Record: record}
	if err := newClient(t, options(t, other)).Push(t.Context(), s, wide(t, s, 20, 0), other.Ref("wide:1"), o); err != nil {
		t.Fatal(err)
	}
	gone := other.Inject(registrytest.Fault{On: registrytest.Manifest, Method: http.MethodHead, Do: registrytest.Status(http.StatusNotFound)})
	if err := newClient(t, options(t, other)).Push(t.Context(), s, wide(t, s, 20, 1), other.Ref("wide:2"), o); err != nil {
		t.Fatal(err)
	}
	if gone() == 0 {
		t.Error("the recorded manifest was not asked for")
	}
}

// A tag that moves while an image is pushed to it ends where this push puts it.
func TestPushToATagThatMoves(t *testing.T) {
	t.Parallel()
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "wide:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, to))
	moved := false
	to.Inject(registrytest.Fault{On: registrytest.Upload, Method: http.MethodPost, Times: 1, Do: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := to.Add(registrytest.Image{Name: "wide:1", Revision: 7}); err != nil {
				t.Error(err)
			}
			moved = true
			next.ServeHTTP(w, r)
		})
	}})
	d := wide(t, s, 20, 0)
	if err := c.Push(t.Context(), s, d, to.Ref("wide:1"), remote.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Pull(t.Context(), storetest.New(t), to.Ref("wide:1"), remote.PullOptions{})
	if err != nil || got.Digest != d.Digest || !moved {
		t.Errorf("the tag is %v, %v; moved: %v", got.Digest, err, moved)
	}
}

// The files of a record are a hint, whatever they hold.
func TestPushWithABrokenRecord(t *testing.T) {
	t.Parallel()
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s := storetest.New(t)
	dir := t.TempDir()
	d := wide(t, s, 20, 0)
	push := func(name string) error {
		return newClient(t, options(t, to)).Push(t.Context(), s, d, to.Ref(name), remote.PushOptions{Record: remote.OpenRecord(dir)})
	}
	if err := push("wide:1"); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{", `{"repository":"library/wide","manifests":[{"digest":"sha256:../x","blobs":"AAAA"}]}`,
		`{"repository":"library/wide","manifests":[{"digest":"` + d.Digest.String() + `","blobs":""}]}`, `{"repository":"../x"}`} {
		damage(t, dir, content)
		if err := push("wide:2"); err != nil {
			t.Errorf("record %q: %v", content, err)
		}
		if err := push("copy:2"); err != nil {
			t.Errorf("record %q: %v", content, err)
		}
	}
}

func TestPushOfABaseElsewhere(t *testing.T) {
	t.Parallel()
	to := newUpstream(t, registrytest.Options{Images: []registrytest.Image{{Name: "other:1"}}})
	s, c := storetest.New(t), newClient(t, options(t, to))
	d := wide(t, s, 20, 0)
	o := remote.PushOptions{Base: to.Ref("none:1")} // not there: passed over
	if err := c.Push(t.Context(), s, d, to.Ref("wide:1"), o); err != nil {
		t.Fatal(err)
	}
	o.Base = to.Ref("wide:1")
	to.ResetRequests()
	if err := c.Push(t.Context(), s, d, to.Ref("copy:1"), o); err != nil {
		t.Fatal(err)
	}
	if n := to.Count(registrytest.Upload, "PUT"); n != 0 {
		t.Errorf("%d blobs of the base were sent", n)
	}
	o.Base.Registry = "registry.invalid"
	if err := c.Push(t.Context(), s, d, to.Ref("copy:2"), o); err != nil {
		t.Error(err)
	}
}

// damage overwrites every file below dir.
func damage(t *testing.T, dir, content string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		return os.WriteFile(name, []byte(content), 0o600)
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files damaged: %v", n, err)
	}
}
