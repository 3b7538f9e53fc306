package imagelist_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/imagelist"
)

// collections is an API server: objects by path.
type collections map[string][]string

func (c collections) List(_ context.Context, path string, each func(json.RawMessage) error) error {
	list, ok := c[path]
	if !ok {
		return errors.New("forbidden")
	}
	for _, object := range list {
		if err := each(json.RawMessage(object)); err != nil {
			return err
		}
	}
	return nil
}

func TestScanCluster(t *testing.T) {
	t.Parallel()
	a, b, d := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64), "sha256:"+strings.Repeat("d", 64)
	pod := func(name, image, id string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"x"},"spec":{"containers":[{"name":"c","image":"` + image + `"}]},"status":{"containerStatuses":[{"name":"c","imageID":"` + id + `"}]}}`
	}
	api := collections{
		"/api/v1/pods": {
			pod("web", "nginx:1.27", "docker.io/library/nginx@"+a),
			pod("local", "quay.io/x/local:1", "sha256:"+strings.Repeat("c", 64)),
			pod("old", "quay.io/x/moved:1", "quay.io/x/moved@"+a),
			pod("new", "quay.io/x/moved:1", "docker-pullable://quay.io/x/moved@"+b),
		},
		"/apis/apps/v1/deployments": {`{"metadata":{"name":"web","namespace":"x"},"spec":{"template":{"spec":{"containers":[
			{"name":"c","image":"nginx:1.27","env":[{"name":"AGENT_IMAGE","value":"quay.io/x/agent:1"}]}]}}}}`},
		"/apis/apps/v1/statefulsets": {}, "/apis/apps/v1/daemonsets": {}, "/apis/batch/v1/jobs": {},
		"/apis/batch/v1/cronjobs": {`{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"quay.io/x/cron:1"}]}}}}}}`},
		"/api/v1/podtemplates":    {}, "/api/v1/nodes": {`{"metadata":{"name":"n1"},"status":{"images":[
			{"names":["docker.io/library/nginx@` + a + `","docker.io/library/nginx:1.27"]},
			{"names":["quay.io/x/idle@` + d + `","quay.io/x/idle:2"]},{"names":["<none>@<none>"]}]}}`},
	}
	res, err := imagelist.ScanCluster(t.Context(), api, "", imagelist.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `certain docker.io/library/nginx:1.27@` + a + `
	cluster:0 Deployment/x/web | spec.template.spec.containers[0].image | pod-spec
	cluster:0 Pod/x/web | spec.containers[0].image | pod-spec
high quay.io/x/agent:1
	cluster:0 Deployment/x/web | spec.template.spec.containers[0].env[0].value | env
certain quay.io/x/cron:1
	cluster:0 CronJob/c | spec.jobTemplate.spec.template.spec.containers[0].image | pod-spec
optional quay.io/x/idle:2@` + d + `
	cluster:0 Node/n1 | status.images | node | on a node, and in no object
certain quay.io/x/local:1
	cluster:0 Pod/x/local | spec.containers[0].image | pod-spec
certain quay.io/x/moved:1@` + a + `
	cluster:0 Pod/x/new | spec.containers[0].image | pod-spec
	cluster:0 Pod/x/old | spec.containers[0].image | pod-spec
certain quay.io/x/moved:1@` + b + `
	cluster:0 Pod/x/new | spec.containers[0].image | pod-spec
	cluster:0 Pod/x/old | spec.containers[0].image | pod-spec
open gap replicationcontrollers (cluster) cluster | replicationcontrollers | cannot be listed: forbidden | let this user list them, or name one namespace
warning quay.io/x/moved:1 runs with 2 digests: the tag has moved
`
	if diff := cmp.Diff(want, describe(res, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := imagelist.ScanCluster(t.Context(), collections{}, "", imagelist.Options{}); err == nil || !strings.Contains(err.Error(), "list pods: forbidden") {
		t.Errorf("a server that answers nothing: %v", err)
	}
	one := collections{}
	for path, list := range api {
		if i := strings.LastIndex(path, "/"); path != "/api/v1/nodes" {
			one[path[:i]+"/namespaces/x"+path[i:]] = list
		}
	}
	if res, err := imagelist.ScanCluster(t.Context(), one, "x", imagelist.Options{}); err != nil || len(res.Images()) != 6 {
		t.Errorf("one namespace: %d images, error %v, want 6", len(res.Images()), err)
	}
}
