package proof

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/cri"
)

// A runtime that is asked itself tells more than its kubelet, and its list
// counts: the kubelet's 50 images do not.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	absent, inside := w.absent.String(), w.config.String()
	reported := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"names":["a@%s"]},`, w.pause), maxListed), ",")
	node := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"images":[%s]}}`, name, reported)
	}
	many := []cri.Image{{ID: absent, Tags: []string{"quay.io/foreign/tool:v1"}}, {ID: inside, Digests: []string{"x@" + absent}}}
	for range 60 {
		many = append(many, cri.Image{ID: "sha256:" + strings.Repeat("0", 64), Digests: []string{"p@" + w.pause.String()}})
	}
	runtimes := []Runtime{
		{Node: "n1", Images: many, Containers: []cri.Container{
			{ID: "c1", Image: inside, Namespace: "default", Pod: "web", Name: "c"},
			{ID: "c2", Image: absent, Namespace: "default", Pod: "foreign", Name: "c"}, // its pod says so
			{ID: "c3", Image: absent}, // of no pod
			{ID: "c4", Image: "docker.io/library/nginx:1.25"},
		}, Unserved: []string{"pause/manifests/3.10: 404 Not Found"}},
		{Node: "n2", Fault: "container runtime /run/x.sock: no answer within 20s"},
		{Node: "n3", Silent: true},
	}
	pods := []string{runs("foreign", "nginx:1.25", "nginx@"+absent)}
	r, err := Make(t.Context(), cluster{"/api/v1/nodes": {node("n1"), node("n2"), node("n3")}, "/api/v1/pods": pods}, w.carried, runtimes, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"node n1: the runtime keeps an image that no ClusterImage carried",
		"node n1 c3: the runtime has a container of an image that no ClusterImage carried",
		`node n1 c4: image ID "docker.io/library/nginx:1.25": it holds no sha256 digest`,
		"pod default/foreign c: it runs an image that no ClusterImage carried",
	}
	if d := cmp.Diff(want, strangers(r)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"node n1: pause/manifests/3.10: 404 Not Found"}, r.Unserved); d != "" {
		t.Error(d)
	}
	if len(r.Unseen) != 2 || !strings.Contains(r.Unseen[0], "n2: container runtime") || !strings.Contains(r.Unseen[1], "n3 lists 50 images") || r.Asked != 1 || r.Nodes != 3 {
		t.Errorf("unseen %q, %d of %d runtimes asked", r.Unseen, r.Asked, r.Nodes)
	}
	if len(r.NodeImages) != 61+maxListed {
		t.Errorf("%d images of runtimes", len(r.NodeImages))
	}
}

func TestUnservedIsNotProven(t *testing.T) {
	t.Parallel()
	if r := (Report{Unserved: []string{"node n1: x: 404"}}); r.Proven() {
		t.Error("an image that is not served is proven")
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if d := cmp.Diff([]string{"library/nginx/manifests/1.25", "pause/manifests/3.10"}, w.carried[0].Manifests()); d != "" {
		t.Error(d)
	}
}
