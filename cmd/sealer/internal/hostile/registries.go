package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Password is the password of the registry under test. It may appear in no
// output, and in no request to another host.
const Password = "S3CRETPW"

// A Registry answers as a registry with one image x/y:1 would, but for what its
// case changes.
type Registry struct {
	Places

	once     sync.Once
	manifest []byte
	layer    []byte
	blobs    Blobs
}

// build makes the image.
func (r *Registry) build() {
	r.once.Do(func() {
		r.layer = Tar(File("a", strings.Repeat("hello", 1000)))
		_, r.manifest, r.blobs = Image{Name: "x/y:1", Layers: []Layer{{Blob: r.layer, Size: 5000}}}.Parts()
	})
}

// changed returns the manifest with other fields.
func (r *Registry) changed(fields Doc) []byte {
	r.build()
	m := Doc{}
	must(json.Unmarshal(r.manifest, &m))
	maps.Copy(m, fields)
	return encode(m)
}

// answer answers like an honest registry, with the manifest m (nil is the
// image's own) and more headers for it.
func (r *Registry) answer(w http.ResponseWriter, q *http.Request, m []byte, header map[string]string) {
	r.build()
	if m == nil {
		m = r.manifest
	}
	switch {
	case q.URL.Path == "/v2/":
	case strings.Contains(q.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", mediaManifest)
		w.Header().Set("Docker-Content-Digest", Digest(m))
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(m)))
		_, _ = w.Write(m)
	default:
		b, ok := r.blobs[q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	}
}

// honest answers without a lie.
func honest(r *Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, nil, nil) })
}

// manifests answers with another manifest.
func manifests(m func(r *Registry) []byte, header map[string]string) func(r *Registry) http.Handler {
	return func(r *Registry) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, m(r), header) })
	}
}

// layered answers requests for the layer by f.
func layered(f func(w http.ResponseWriter, q *http.Request, layer []byte)) func(r *Registry) http.Handler {
	return func(r *Registry) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			r.build()
			if strings.HasSuffix(q.URL.Path, "/blobs/"+Digest(r.layer)) {
				f(w, q, r.layer)
				return
			}
			r.answer(w, q, nil, nil)
		})
	}
}

// redirecting sends requests for blobs to a place. {other} is another host.
func redirecting(to string) func(r *Registry) http.Handler {
	return func(r *Registry) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, digest, ok := strings.Cut(q.URL.Path, "/blobs/")
			if !ok {
				r.answer(w, q, nil, nil)
				return
			}
			w.Header().Set("Location", strings.ReplaceAll(r.in(to), "{digest}", digest))
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
}

// asking wants credentials from a realm.
func asking(scheme, realm string) func(r *Registry) http.Handler {
	return func(r *Registry) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.Header.Get("Authorization"), scheme+" ") {
				r.answer(w, q, nil, nil)
				return
			}
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`%s realm="%s",service="x"`, scheme, r.in(realm)))
			w.WriteHeader(http.StatusUnauthorized)
		})
	}
}

// raw takes the connection and writes bytes of its own.
func raw(w http.ResponseWriter, f func(write func(string) bool)) {
	c, b, err := http.NewResponseController(w).Hijack()
	must(err)
	defer c.Close()
	f(func(s string) bool {
		_, err := b.WriteString(s)
		if err == nil {
			err = b.Flush()
		}
		return err == nil
	})
}

// drip writes the layer, a byte each 50 milliseconds.
func drip(w http.ResponseWriter, _ *http.Request, layer []byte) {
	raw(w, func(write func(string) bool) {
		ok := write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(layer)))
		for i := 0; ok && i < len(layer); i++ {
			time.Sleep(50 * time.Millisecond)
			ok = write(string(layer[i : i+1]))
		}
	})
}

// endless answers every request for a manifest with an index that names another.
func endless(*Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.Contains(q.URL.Path, "/manifests/") {
			return
		}
		next := Digest([]byte(q.URL.Path))
		w.Header().Set("Content-Type", mediaIndex)
		_, _ = w.Write(encode(Doc{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []Doc{
			{"mediaType": mediaIndex, "digest": next, "size": 400, "platform": Doc{"os": "linux", "architecture": "amd64"}},
		}}))
	})
}
