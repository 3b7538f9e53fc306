package hostile

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// pushes returns registries that lead the uploads of a push elsewhere.
func pushes() []Case {
	var out []Case
	for _, c := range []struct{ name, text, location string }{
		{"upload that goes on at http of another host", "over plain http", "http://{other}/upload/1"},
		{"upload that goes on at a file", "leads to a URL of scheme \"file\"", "file:///etc/passwd"},
		{"upload that goes on at a cloud's metadata service", "over plain http", "http://169.254.169.254/latest"},
		{"upload that goes on at a URL with a password", "it speaks plain http, and is not said to be insecure", "https://joe:pw@{other}/upload"},
		{"upload that goes on nowhere", "the answer has no Location", ""},
		{"upload that goes on at a URL with a line end", "404 Not Found", "/v2/x/%0d%0aX:%20y"},
	} {
		out = append(out, Case{
			Group: "registry that is pushed to", Name: c.name, Exit: 1, Text: c.text,
			Make:  func(dir string, _ Places) { Write(dir, "in.tar", string(sound())) },
			First: []string{"load", "-q", "-i", "in.tar"},
			Args:  []string{"push", "-q", "--insecure-registry", "{registry}", loaded, "{registry}/x/y:1"},
			Registry: func(r *Registry) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					switch {
					case q.URL.Path == "/v2/":
					case q.Method == http.MethodPost:
						w.Header().Set("Location", r.in(c.location))
						w.WriteHeader(http.StatusAccepted)
					default:
						w.WriteHeader(http.StatusNotFound)
					}
				})
			},
		})
	}
	return out
}

// lyingRanges are the answers to a request for the rest of a blob, whose first
// answer broke off.
func lyingRanges() []registryCase {
	one := func(name, text, contentRange string, rest func(layer []byte) []byte) registryCase {
		return registryCase{name, text, func(r *Registry) http.Handler {
			var asked atomic.Int32
			return layered(func(w http.ResponseWriter, q *http.Request, layer []byte) {
				if asked.Add(1) == 1 {
					raw(w, func(write func(string) bool) {
						write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(layer), layer[:5000]))
					})
					return
				}
				body := rest(layer)
				w.Header().Set("Content-Range", contentRange)
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(body)
			})(r)
		}}
	}
	tail := func(layer []byte) []byte { return layer[5000:] }
	return []registryCase{
		one("rest of a blob from another byte on", "206 Partial Content", "bytes 4999-6655/6656", tail),
		one("rest of a blob of another length", "206 Partial Content", "bytes 5000-6655/99999999999", tail),
		one("rest of a blob that ends beyond 2^63", "206 Partial Content", "bytes 5000-99999999999999999999/6656", tail),
		one("rest of a blob of other bytes", "content does not match its descriptor", "bytes 5000-6655/6656", func(layer []byte) []byte { return make([]byte, len(layer)-5000) }),
	}
}

// bombs are answers that are small on the line, or have no end, and their like.
func bombs() []registryCase {
	bomb := Gzip(make([]byte, 512<<20))
	token := func(answer func(w http.ResponseWriter)) func(r *Registry) http.Handler {
		return func(r *Registry) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case q.URL.Path == "/token":
					answer(w)
				case strings.HasPrefix(q.Header.Get("Authorization"), "Bearer "):
					r.answer(w, q, nil, nil)
				default:
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, q.Host))
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
		}
	}
	return []registryCase{
		{"manifest that unpacks to 512 MB", "is not JSON", manifests(func(*Registry) []byte { return bomb }, map[string]string{"Content-Encoding": "gzip"})},
		{"token without an end", "is not JSON, or cut off", token(func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"token":"`)
			for zeros := []byte(strings.Repeat("0", 64<<10)); ; {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		})},
		{"token with a line end", "invalid header field value", token(func(w http.ResponseWriter) { fmt.Fprint(w, `{"token":"a\r\nX-Evil: y"}`) })},
		{"token that lasts 10^30 seconds", "is not JSON, or cut off", token(func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"token":"a","expires_in":1000000000000000000000000000000}`)
		})},
		{"token server that redirects to another host", "307 Temporary Redirect", token(func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://169.254.169.254/latest")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})},
	}
}
