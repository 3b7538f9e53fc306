package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
)

// blobs is a store in memory.
type blobs map[digest.Digest]string

func (b blobs) ReadBlob(_ context.Context, d digest.Digest, _ int64) ([]byte, error) {
	if s, ok := b[d]; ok {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("blob %s: %w", d, fs.ErrNotExist)
}

func (b blobs) HasBlob(_ context.Context, d digest.Digest) (bool, error) {
	_, ok := b[d]
	return ok, nil
}

func (b blobs) add(s string) digest.Digest {
	d := digest.FromString(s)
	b[d] = s
	return d
}

// A cluster answers lists with objects, by path.
type cluster map[string][]string

func (c cluster) List(_ context.Context, path string, each func(json.RawMessage) error) error {
	for _, o := range c[path] {
		if err := each(json.RawMessage(o)); err != nil {
			return err
		}
	}
	return nil
}

// world is a ClusterImage with two images: nginx, an index whose manifest for
// arm64 was not mirrored, and pause, a single manifest.
type world struct {
	carried                              []Carried
	index, manifest, config, absent, arm digest.Digest
	pause                                digest.Digest
}

func newWorld(t *testing.T) world {
	t.Helper()
	store := blobs{}
	w := world{config: digest.FromString("config"), arm: digest.FromString("arm64"), absent: digest.FromString("stranger")}
	w.manifest = store.add(fmt.Sprintf(`{"config":{"digest":%q}}`, w.config))
	w.index = store.add(fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"digest":%q},{"digest":%q}]}`, w.manifest, w.arm))
	w.pause = store.add(fmt.Sprintf(`{"config":{"digest":%q}}`, digest.FromString("pause")))
	c := image.Config{Images: []image.MirroredImage{
		{Reference: image.ParseName("nginx:1.25"), Digest: w.index, Found: []image.Provenance{{File: "manifests/web.yaml", Line: 7}}},
		{Reference: image.ParseName("registry.k8s.io/pause:3.10"), Digest: w.pause},
		{Reference: image.ParseName("quay.io/not/inside:v1"), Missing: "not mirrored: optional"},
	}}
	carried, err := Read(t.Context(), "app:v1", digest.FromString("app"), &c, store)
	if err != nil {
		t.Fatal(err)
	}
	w.carried = []Carried{carried}
	return w
}

// runs is a pod with one container.
func runs(name, reference, imageID string) string {
	id, err := json.Marshal(imageID)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":%q}]},
		"status":{"containerStatuses":[{"name":"c","imageID":%s,"state":{"running":{}}}]}}`, name, reference, id)
}

func proofOf(t *testing.T, w world, c cluster) *Report {
	t.Helper()
	r, err := Make(t.Context(), c, w.carried, nil, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// strangers are the report's, "WHERE NAME: WHY" each.
func strangers(r *Report) []string {
	var out []string
	for _, s := range r.Strangers {
		out = append(out, strings.TrimSpace(s.Where+" "+s.Name)+": "+s.Why)
	}
	return out
}

func TestEveryFormOfAnImageID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, form := range []string{
		"docker.io/library/nginx@" + w.index.String(),
		"sea.hub:5000/library/nginx@" + w.manifest.String(),
		"another.example/name@" + w.manifest.String(), // names are not compared
		w.config.String(),
		"docker-pullable://nginx@" + w.index.String(),
		"docker://" + w.config.String(),
	} {
		r := proofOf(t, w, cluster{"/api/v1/pods": {runs("p", "nginx:1.25", form)}})
		if len(r.Containers) != 1 || !r.Proven() {
			t.Errorf("%s: strangers %q", form, strangers(r))
			continue
		}
		got := r.Containers[0]
		if got.Mirrored != "docker.io/library/nginx:1.25" || got.ClusterImage != "app:v1" || got.Found[0].File != "manifests/web.yaml" || got.Found[0].Line != 7 {
			t.Errorf("%s: not traced: %+v", form, got)
		}
	}
}

func TestStrangersInPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := []string{
		runs("absent", "nginx:1.25", "nginx@"+w.absent.String()),
		runs("other-platform", "nginx:1.25", w.arm.String()), // listed by the index, not inside
		runs("none", "nginx:1.25", ""),
		runs("short", "nginx:1.25", "sha256:abc"),
		runs("upper", "nginx:1.25", "sha256:"+strings.ToUpper(w.config.Encoded())),
		runs("words", "nginx:1.25", "\x1b[31m"+strings.Repeat("x", 1000)),
		runs("renamed", "evil.example/nginx:1", "nginx@"+w.index.String()), // from inside; the next pull fails
		`{"metadata":{"name":"init","namespace":"default"},"spec":{"initContainers":[{"name":"i","image":"nginx:1.25"}]},
			"status":{"initContainerStatuses":[{"name":"i","imageID":"` + w.absent.String() + `","state":{"terminated":{}}}]}}`,
		`{"metadata":{"name":"debug","namespace":"default"},"spec":{"ephemeralContainers":[{"name":"e","image":"busybox"}]},
			"status":{"ephemeralContainerStatuses":[{"name":"e","imageID":"` + w.absent.String() + `","state":{"running":{}}}]}}`,
		`{"metadata":{"name":"hidden","namespace":"default"},"spec":{},
			"status":{"containerStatuses":[{"name":"h","imageID":"` + w.absent.String() + `","state":{"running":{}}}]}}`,
		`{"metadata":{"name":"pulling","namespace":"default"},"spec":{"containers":[{"name":"c","image":"quay.io/not/inside:v1"}]},"status":{}}`,
	}
	r := proofOf(t, w, cluster{"/api/v1/pods": pods})
	const absent = "it runs an image that no ClusterImage carried"
	const gone = "no ClusterImage has the reference: a new pod could not be pulled"
	want := []string{
		"pod default/absent c: " + absent,
		"pod default/debug e: " + absent,
		"pod default/hidden h: " + absent,
		"pod default/init i: " + absent,
		"pod default/none c: it runs or ran, and its node reports no image ID",
		"pod default/other-platform c: " + absent,
		"pod default/pulling c: " + gone,
		"pod default/renamed c: " + gone,
		`pod default/short c: image ID "sha256:abc": it holds no sha256 digest`,
	}
	got := strangers(r)
	if d := cmp.Diff(want, got[:min(len(want), len(got))]); d != "" {
		t.Error(d)
	}
	if r.Pods != len(pods) || len(got) != len(pods) || r.Proven() {
		t.Errorf("%d pods, %d strangers, proven %v: %q", r.Pods, len(got), r.Proven(), got)
	}
	for _, s := range got {
		if strings.Contains(s, "\x1b") || len(s) > 400 {
			t.Errorf("a hostile image ID is printed as it is: %q", s)
		}
	}
}

func TestWaitingIsNoStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := proofOf(t, w, cluster{"/api/v1/pods": {`{"metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"c","image":"nginx:1.25"}]},
		"status":{"containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}]}}`}})
	if len(r.Waiting) != 1 || !r.Proven() {
		t.Errorf("waiting %v, strangers %q", r.Waiting, strangers(r))
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"names":["a@%s"]},`, w.pause), maxListed), ",")
	r := proofOf(t, w, cluster{"/api/v1/nodes": {
		fmt.Sprintf(`{"metadata":{"name":"n1"},"status":{"images":[{"names":["x/nginx@%s","x/nginx:1.25"]},{"names":["y@%s","y@%s"]},{"names":["z@%s","z:1"]},{"names":["only:tag"]},{}]}}`, w.index, w.absent, w.pause, w.absent),
		`{"metadata":{"name":"n2"},"status":{"images":[` + many + `]}}`,
	}})
	want := []string{
		"node n1: the runtime keeps an image that no ClusterImage carried",
		"node n1: the runtime keeps an image without a digest",
		"node n1: the runtime keeps an image without a digest",
	}
	got := strangers(r)
	if d := cmp.Diff(len(want), len(got)); d != "" {
		t.Errorf("strangers %q", got)
	}
	for _, s := range want {
		if !strings.Contains(strings.Join(got, "\n"), s) {
			t.Errorf("%q is not among %q", s, got)
		}
	}
	if len(r.Unseen) != 1 || !strings.Contains(r.Unseen[0], "n2 lists 50 images") || len(r.NodeImages) != 2+maxListed {
		t.Errorf("unseen %q, node images %d", r.Unseen, len(r.NodeImages))
	}
}

func TestWorkloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object := func(name, owner, image string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"d"%s},"spec":{"template":{"spec":{"containers":[{"name":"c","image":%q}]}}}}`, name, owner, image)
	}
	r := proofOf(t, w, cluster{
		"/apis/apps/v1/deployments": {
			object("public", "", "nginx:1.25"),
			object("private", "", "sea.hub:5000/library/nginx:1.25"),
			object("pinned", "", "nginx@"+w.index.String()),
			object("pinned-manifest", "", "nginx:1.25@"+w.manifest.String()),
			object("other-tag", "", "nginx:1.26"),
			object("other-digest", "", "nginx:1.25@"+w.absent.String()),
			object("other-name", "", "evil/nginx@"+w.index.String()),
			object("bad", "", "UPPER:x"),
		},
		"/apis/apps/v1/replicasets": {object("old", `,"ownerReferences":[{"controller":true}]`, "nginx:0.1")},
		"/apis/batch/v1/cronjobs":   {`{"metadata":{"name":"nightly","namespace":"d"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"name":"c","image":"busybox"}]}}}}}}`},
	})
	var names []string
	for _, s := range r.Strangers {
		names = append(names, s.Where)
	}
	want := []string{"CronJob d/nightly", "Deployment d/bad", "Deployment d/other-digest", "Deployment d/other-name", "Deployment d/other-tag"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	if len(r.Workloads) != 4 {
		t.Errorf("%d workloads are inside, want 4: %+v", len(r.Workloads), r.Workloads)
	}
}

func TestHostileObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, o := range []string{`"text"`, `{"spec":[]}`, `{"status":{"containerStatuses":{}}}`, `{"metadata":{"name":1}}`} {
		if _, err := Make(t.Context(), cluster{"/api/v1/pods": {o}}, w.carried, nil, time.Time{}); err == nil {
			t.Errorf("%s: no error", o)
		}
	}
}

// A ClusterImage whose content is broken proves nothing.
func TestReadBroken(t *testing.T) {
	t.Parallel()
	c := image.Config{Images: []image.MirroredImage{{Reference: image.ParseName("nginx"), Digest: digest.FromString("gone")}}}
	if _, err := Read(t.Context(), "app:v1", "", &c, blobs{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "library/nginx") {
		t.Errorf("error %v", err)
	}
	bad := blobs{}
	c.Images[0].Digest = bad.add("no json")
	if _, err := Read(t.Context(), "app:v1", "", &c, bad); err == nil {
		t.Error("no error for a manifest that is no JSON")
	}
}
