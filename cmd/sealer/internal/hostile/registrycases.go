package hostile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A registryCase is a registry and a part of the error; "" for one whose image is
// taken.
type registryCase struct {
	name, text string
	registry   func(r *Registry) http.Handler
}

func registries() []Case {
	var out []Case
	for _, c := range slices.Concat(redirects(), blobAnswers(), retried(), manifestAnswers(), layersNamed(), challenges(), lyingRanges(), bombs()) {
		one := Case{
			Group: "registry", Name: c.name, Registry: c.registry, Exit: 1, Text: c.text,
			Args: []string{"pull", "--debug", "--insecure-registry", "{registry}", "{registry}/x/y:1"},
		}
		if c.text == "" {
			one.Exit, one.Image = 0, "{registry}/x/y:1"
		}
		if strings.Contains(c.name, "--stall-timeout") {
			one.Args = append(one.Args, "--stall-timeout", "1s")
		}
		out = append(out, one)
	}
	return out
}

func redirects() []registryCase {
	return []registryCase{
		{"honest", "", honest},
		{"blob redirected to http of another host", "over plain http", redirecting("http://{other}/x/{digest}")},
		{"blob redirected to a file", "it redirects to no URL", redirecting("file:///etc/passwd")},
		{"blob redirected to gopher", "leads to a URL of scheme \"gopher\"", redirecting("gopher://127.0.0.1/")},
		{"blob redirected to itself", "too many redirects", redirecting("/v2/x/y/blobs/{digest}")},
		{"blob redirected to a socket", "it redirects to no URL", redirecting("http+unix://%2frun%2fdocker.sock/x")},
		{"blob redirected to a URL with a password", "it speaks plain http, and is not said to be insecure", redirecting("https://user:pw@{other}/")},
		{"blob redirected to nowhere", "too many redirects", redirecting("")},
	}
}

func blobAnswers() []registryCase {
	whole := func(header map[string]string, change func(layer []byte) []byte) func(r *Registry) http.Handler {
		return layered(func(w http.ResponseWriter, _ *http.Request, layer []byte) {
			for k, v := range header {
				w.Header().Set(k, v)
			}
			_, _ = w.Write(change(layer))
		})
	}
	return []registryCase{
		{"blob of other bytes", "content does not match its descriptor", whole(nil, func(b []byte) []byte { return make([]byte, len(b)) })},
		{"blob with more bytes", "the registry sends more than 6656 bytes", whole(nil, func(b []byte) []byte { return append(slices.Clone(b), "more"...) })},
		{"blob that is compressed once more", "bytes where the descriptor says 6656", whole(map[string]string{"Content-Encoding": "gzip"}, Gzip)},
		{"blob without an end", "the registry sends more than 6656 bytes", layered(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			zeros := make([]byte, 64<<10)
			for {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		})},
		{"blob that is missing", "404 Not Found", layered(func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusNotFound) })},
	}
}

// retried are the answers that a later try may mend, so that each case waits.
func retried() []registryCase {
	const escape = "\x1b]0;T\a\x1b[2J"
	lines := func(head string, body func(layer []byte) string) func(r *Registry) http.Handler {
		return layered(func(w http.ResponseWriter, _ *http.Request, layer []byte) {
			raw(w, func(write func(string) bool) { write("HTTP/1.1 " + head + "\r\n\r\n" + body(layer)) })
		})
	}
	text := func(layer []byte) string { return string(layer) }
	return []registryCase{
		{"blob that ends early", "after 50 of 6656 bytes: the transfer broke off", layered(func(w http.ResponseWriter, _ *http.Request, layer []byte) {
			raw(w, func(write func(string) bool) {
				write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(layer), layer[:50]))
			})
		})},
		{"blob of a negative length", "bad Content-Length \"-5\"", lines("200 OK\r\nContent-Length: -5", text)},
		{"blob with two lengths", "multiple Content-Length headers", lines("200 OK\r\nContent-Length: 5\r\nContent-Length: 6", text)},
		{"blob with a length and in chunks, which it is not", "the transfer broke off", lines("200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", text)},
		{"blob in a part that was not asked for", "206 Partial Content", lines("206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/10", func(layer []byte) string { return string(layer[:10]) })},
		{"blob with 2 MB of headers", "", lines("200 OK\r\nX: "+strings.Repeat("a", 2<<20), text)},
		{"blob that is no HTTP", "malformed HTTP response", layered(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			raw(w, func(write func(string) bool) { write("SSH-2.0-OpenSSH\r\n") })
		})},
		{"blob that answers 500 with escape sequences", "500 Internal Server Error", layered(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "<html>", strings.Repeat(escape, 50))
		})},
		{"blob that drips 20 bytes a second, --stall-timeout 1s", "no data, or too little, for too long (1s)", layered(drip)},
	}
}

func manifestAnswers() []registryCase {
	const escape = "\x1b]0;T\a\x1b[2J"
	text := func(s string) func(*Registry) []byte { return func(*Registry) []byte { return []byte(s) } }
	own := func(r *Registry) []byte { return nil }
	return []registryCase{
		{"manifest under another digest", "content does not match its descriptor", manifests(own, map[string]string{"Docker-Content-Digest": "sha256:" + strings.Repeat("0", 64)})},
		{"manifest under a digest with ..", "content does not match its descriptor", manifests(own, map[string]string{"Docker-Content-Digest": "sha256:../../../../etc/passwd"})},
		{"manifest whose header says that it is a web page", "", manifests(own, map[string]string{"Content-Type": "text/html" + "; x=\u202e"})},
		{"manifest nested 100,000 deep", "exceeded max depth", manifests(text(strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000)), nil)},
		{"manifest of 5 MB", "a manifest of 5243366 bytes, the limit is 4194304", manifests(func(r *Registry) []byte { return r.changed(Doc{"annotations": Doc{"a": strings.Repeat("x", 5<<20)}}) }, nil)},
		{"manifest that is {}", "is no image manifest", manifests(text("{}"), nil)},
		{"manifest that is null", "is no image manifest", manifests(text("null"), nil)},
		{"manifest that is a web page", "is not JSON", manifests(text("<html>"+escape), map[string]string{"Content-Type": "text/html"})},
		{"manifest with a key twice", "the config has 1 layers, the manifest 0", manifests(func(r *Registry) []byte {
			m := r.changed(nil)
			return append(m[:len(m)-1], `,"layers":[]}`...)
		}, nil)},
		{"index that names a missing index", "an index inside an index", manifests(func(*Registry) []byte {
			return encode(Doc{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []Doc{
				{"mediaType": mediaIndex, "digest": "sha256:" + strings.Repeat("a", 64), "size": 100, "platform": Doc{"os": "linux", "architecture": "amd64"}},
			}})
		}, map[string]string{"Content-Type": mediaIndex})},
		{"index that names ever another index", "an index inside an index", endless},
		{"error with escape sequences", "404 Not Found", func(*Registry) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.Contains(q.URL.Path, "/manifests/") {
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write(encode(Doc{"errors": []Doc{{"code": "X" + escape, "message": "m" + strings.Repeat(escape, 20)}}}))
				}
			})
		}},
	}
}

func layersNamed() []registryCase {
	one := func(digest func(layer []byte) string, size func(layer []byte) any) func(r *Registry) http.Handler {
		return manifests(func(r *Registry) []byte {
			r.build()
			return r.changed(Doc{"layers": []Doc{{"mediaType": mediaTar, "digest": digest(r.layer), "size": size(r.layer)}}})
		}, nil)
	}
	own := func(layer []byte) string { return Digest(layer) }
	sized := func(v any) func([]byte) any { return func([]byte) any { return v } }
	return []registryCase{
		{"layer under a digest with ..", "unsupported", one(func([]byte) string { return "sha256:../../../../../tmp/evil" }, sized(5))},
		{"layer of -1 bytes", "of -1 bytes", one(own, sized(-1))},
		{"layer of 2^62 bytes", "no space left on device", one(own, sized(int64(1<<62)))},
		{"layer of a byte less than it has", "the registry has 6656 bytes where the descriptor says 6655", one(own, func(b []byte) any { return len(b) - 1 })},
		{"25,000 layers", "more blobs: not tried after these failures", manifests(func(r *Registry) []byte {
			var many []Doc
			for i := range 25_000 {
				many = append(many, Doc{"mediaType": mediaTar, "digest": Digest([]byte(fmt.Sprint(i))), "size": 10})
			}
			return r.changed(Doc{"layers": many})
		}, nil)},
	}
}

func challenges() []registryCase {
	return []registryCase{
		{"asks for the password (Basic)", "", asking("Basic", "x")},
		{"asks for tokens at http of another host", "over plain http", asking("Bearer", "http://{other}/token")},
		{"asks for tokens at a file", "as its token server", asking("Bearer", "file:///etc/passwd")},
		{"asks for tokens at a cloud's metadata service", "over plain http", asking("Bearer", "http://169.254.169.254/latest")},
		{"asks for tokens nowhere", "401 Unauthorized", asking("Bearer", "")},
		{"asks for tokens at a URL with a line end", "connection refused", asking("Bearer", `https://127.0.0.1:1/\r\nX: y`)},
		{"asks for Negotiate", "401 Unauthorized", asking("Negotiate", "x")},
	}
}
