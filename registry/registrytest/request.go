package registrytest

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// A Level is the kind of a request.
type Level string

// The levels of requests.
const (
	Any       Level = ""         // of a Fault or a count: every request
	Ping      Level = "ping"     // GET /v2/
	Token     Level = "token"    // the token server
	Manifest  Level = "manifest" // manifests and indexes, by tag or digest
	Blob      Level = "blob"     // configs and layers; not uploads
	Upload    Level = "upload"
	Tags      Level = "tags"
	Catalog   Level = "catalog"
	Referrers Level = "referrers"
	Other     Level = "other"
)

// A Request is an entry of the request log.
type Request struct {
	Method     string
	Level      Level
	Repository string
	Reference  string // tag or digest
	URL        string // path and query
	Header     http.Header
	Status     int   // 0 while nothing was answered
	Bytes      int64 // of the body, sent so far
	Received   int64 // of the request's body, read so far
}

const tokenPath = "/token"

// parse describes r; see "Endpoints" in the OCI distribution specification.
func parse(r *http.Request) Request {
	out := Request{Method: r.Method, Level: Other, URL: r.URL.RequestURI(), Header: r.Header.Clone()}
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	switch {
	case r.URL.Path == tokenPath:
		out.Level = Token
	case !ok:
	case path == "":
		out.Level = Ping
	case path == "_catalog":
		out.Level = Catalog
	case strings.HasSuffix(path, "/tags/list"):
		out.Level, out.Repository = Tags, strings.TrimSuffix(path, "/tags/list")
	default:
		if i := strings.LastIndex(path, "/manifests/"); i > 0 {
			out.Level, out.Repository, out.Reference = Manifest, path[:i], path[i+len("/manifests/"):]
		} else if i := strings.LastIndex(path, "/referrers/"); i > 0 {
			out.Level, out.Repository, out.Reference = Referrers, path[:i], path[i+len("/referrers/"):]
		} else if i := strings.LastIndex(path, "/blobs/"); i > 0 {
			out.Level, out.Repository, out.Reference = Blob, path[:i], path[i+len("/blobs/"):]
			if strings.HasPrefix(out.Reference, "uploads/") {
				out.Level = Upload
			}
		}
	}
	return out
}

// Requests returns a copy of the request log, in the order of arrival. A request
// is logged when it arrives.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Request, len(u.log))
	for i, r := range u.log {
		out[i] = *r
	}
	return out
}

// Count returns the number of logged requests of level with one of methods; no
// methods means all of them.
func (u *Upstream) Count(level Level, methods ...string) int {
	n := 0
	for _, r := range u.Requests() {
		if (level == Any || r.Level == level) && (len(methods) == 0 || slices.Contains(methods, r.Method)) {
			n++
		}
	}
	return n
}

// ResetRequests empties the request log.
func (u *Upstream) ResetRequests() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.log = nil
}

// logWriter records status and bytes of a response in the log.
type logWriter struct {
	http.ResponseWriter
	u     *Upstream
	entry *Request
}

func (w *logWriter) WriteHeader(status int) {
	w.u.mu.Lock()
	w.entry.Status = status
	w.u.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *logWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.entry.Status == 0 {
		w.entry.Status = http.StatusOK
	}
	w.entry.Bytes += int64(n)
	return n, err
}

// logBody records the bytes of a request's body in the log.
type logBody struct {
	io.ReadCloser
	u     *Upstream
	entry *Request
}

func (b *logBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.u.mu.Lock()
	defer b.u.mu.Unlock()
	b.entry.Received += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController the connection's own writer.
func (w *logWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
