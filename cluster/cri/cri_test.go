package cri

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/clusterimage/sealer/grpc"
)

// field encodes a length-delimited field.
func field(number protowire.Number, content string) string {
	return string(grpc.Message(nil).Bytes(number, []byte(content)))
}

// runtime serves answers by path on a unix socket, over HTTP/1 and 2.
func runtime(t *testing.T, name string, h http.HandlerFunc) Runtime {
	t.Helper()
	r := Runtime{filepath.Join(t.TempDir(), name)}
	l, err := net.Listen("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return r
}

func service(answers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		message, ok := answers[q.URL.Path]
		if !ok || q.ProtoMajor != 2 || q.Header.Get("TE") != "trailers" {
			w.Header().Set("Grpc-Status", "12")
			w.Header().Set("Grpc-Message", "unknown service")
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(grpc.Frame([]byte(message))) // the client may have gone
		w.Header().Set("Grpc-Status", "0")
	}
}

const (
	image = "\x20\x05" // size 5, a varint
	id    = "sha256:aaaa"
)

func TestImages(t *testing.T) {
	t.Parallel()
	message := field(1, field(1, id)+field(2, "docker.io/library/nginx:1")+image+field(3, "docker.io/library/nginx@sha256:bbbb")) + field(1, field(1, "sha256:cccc"))
	want := []Image{{ID: id, Tags: []string{"docker.io/library/nginx:1"}, Digests: []string{"docker.io/library/nginx@sha256:bbbb"}}, {ID: "sha256:cccc"}}
	for _, version := range []string{"v1", "v1alpha2"} {
		r := runtime(t, "cri.sock", service(map[string]string{"/runtime." + version + ".ImageService/ListImages": message}))
		got, err := r.Images(t.Context())
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", version, err, d)
		}
	}
}

func TestContainers(t *testing.T) {
	t.Parallel()
	label := func(k, v string) string { return field(8, field(1, k)+field(2, v)) }
	message := field(1, field(1, "c1")+field(5, id)+label("io.kubernetes.pod.name", "web")+label("io.kubernetes.pod.namespace", "shop")+label("io.kubernetes.container.name", "c")+label("x", "y"))
	r := runtime(t, "cri.sock", service(map[string]string{"/runtime.v1.RuntimeService/ListContainers": message}))
	got, err := r.Containers(t.Context())
	want := []Container{{ID: "c1", Image: id, Namespace: "shop", Pod: "web", Name: "c"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestDocker(t *testing.T) {
	t.Parallel()
	r := runtime(t, "docker.sock", func(w http.ResponseWriter, q *http.Request) {
		answer := map[string]string{
			"/images/json":           `[{"Id":"sha256:aaaa","RepoTags":["n:1"],"RepoDigests":["n@sha256:bbbb"]}]`,
			"/containers/json?all=1": `[{"Id":"c1","Names":["/alone"],"ImageID":"sha256:aaaa","Labels":{}},{"Id":"c2","Names":["/k8s"],"ImageID":"sha256:aaaa","Labels":{"io.kubernetes.container.name":"web"}}]`,
		}[q.URL.String()]
		_, _ = w.Write([]byte(answer)) // the client may have gone
	})
	images, err := r.Images(t.Context())
	if d := cmp.Diff([]Image{{ID: id, Tags: []string{"n:1"}, Digests: []string{"n@sha256:bbbb"}}}, images); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	containers, err := r.Containers(t.Context())
	if d := cmp.Diff([]Container{{ID: "c1", Image: id, Name: "alone"}, {ID: "c2", Image: id, Name: "web"}}, containers); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const list = "/runtime.v1.ImageService/ListImages"
	for name, c := range map[string]struct {
		runtime Runtime
		want    string
	}{
		"no socket":         {Runtime{filepath.Join(t.TempDir(), "none.sock")}, "no such file"},
		"another service":   {runtime(t, "cri.sock", service(nil)), "gRPC status 12"},
		"cut short":         {runtime(t, "cri.sock", service(map[string]string{list: field(1, "\x0a\x7fabc")})), "malformed"},
		"a group":           {runtime(t, "cri.sock", service(map[string]string{list: "\x0b"})), "malformed"},
		"a web server":      {runtime(t, "cri.sock", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }), "does not speak gRPC"},
		"an error of HTTP":  {runtime(t, "cri.sock", http.NotFound), "404"},
		"docker, not JSON":  {runtime(t, "docker.sock", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }), "invalid character"},
		"docker, forbidden": {runtime(t, "docker.sock", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }), "403"},
	} {
		if _, err := c.runtime.Images(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
