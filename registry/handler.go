package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/api/errcode"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// The paths beside the registry API.
const (
	HealthPath  = "/healthz"
	MetricsPath = "/metrics"
)

// Options of NewHandler.
type Options struct {
	// Documents are the layers' documents, lowest first. The sources in them give
	// the names, beside the tree's own, under which an image is found.
	Documents []*tree.Document
	// References are further names that a cluster asks for, such as those that
	// discovery recorded. A reference that the tree lacks is ignored.
	References []ref.Reference
	// PrivateRegistries are the names of the private registry. A ?ns= that gives
	// one of them asks by the private registry's names, any other by a source
	// registry's. ref.DefaultPrivate is always one.
	PrivateRegistries []string
	// Htpasswd is a file of "user:bcrypt hash" lines; "" lets everybody read.
	Htpasswd string
	// Logger gets a line for each request; nil discards.
	Logger *slog.Logger
	// Release is called when the layers are no longer read; nil for nothing.
	Release func() error
	// Linger is how long content is still found by digest after Replace; 0 is 10
	// minutes.
	Linger time.Duration
}

// A Handler serves the registry API of the OCI distribution specification,
// read-only, and HealthPath and MetricsPath. It is safe for concurrent use.
type Handler struct {
	contents contents
	users    atomic.Pointer[users] // nil lets everybody
	metrics  *metrics
	log      *slog.Logger
}

// NewHandler serves the registry trees of layers, lowest first. Directories without
// a tree are passed over. The caller closes the Handler;
// after an error o.Release is the caller's to call. ctx carries values only: its
// end does not stop the handler.
func NewHandler(ctx context.Context, layers []Layer, o Options) (*Handler, error) {
	if o.Logger == nil {
		o.Logger = discard()
	}
	users, err := optionalUsers(o.Htpasswd)
	if err != nil {
		return nil, err
	}
	c, err := openContent(ctx, layers, o)
	if err != nil {
		return nil, err
	}
	h := &Handler{metrics: newMetrics(), log: o.Logger}
	h.contents.linger, h.contents.log = cmp.Or(o.Linger, defaultLinger), o.Logger
	h.users.Store(users)
	h.contents.replace(c)
	return h, nil
}

// newApp makes distribution's handlers. The configuration is built here because
// distribution's parser lets every REGISTRY_* variable of the environment
// override the configuration or make it invalid, podman's REGISTRY_AUTH_FILE
// included. NewApp panics on a configuration that it does not accept.
func newApp(ctx context.Context, l *layers) (app *handlers.App, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("configure registry: %v", p)
		}
	}()
	c := &configuration.Configuration{Storage: configuration.Storage{
		driverName: configuration.Parameters{driverParameter: l},
		"maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false}, // otherwise NewApp scans for uploads to delete
			"readonly":      map[any]any{"enabled": true},
		},
	}}
	c.Validation.Disabled = true       // nothing is written
	c.Catalog.MaxEntries = 10_000      // 0 would list none
	c.Tags.MaxTags = 10_000            // 0 would list none
	c.HTTP.Secret = "no uploads exist" // signs uploads; NewApp warns when it is empty
	c.HTTP.Headers = http.Header{"X-Content-Type-Options": {"nosniff"}}
	return handlers.NewApp(ctx, c), nil
}

// Close releases the layers. Requests must have ended.
func (h *Handler) Close() error {
	if err := h.contents.close(); err != nil {
		return fmt.Errorf("close registry: %w", err)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w}
	endpoint := h.serve(rec, r)
	took := time.Since(start)
	h.metrics.observe(endpoint, r.Method, rec.status, rec.bytes, took)
	if endpoint == "health" || endpoint == "metrics" {
		return // asked every few seconds
	}
	h.log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method), slog.String("url", r.URL.RequestURI()),
		slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took), slog.String("client", r.RemoteAddr))
}

// admit reports whether r may be answered. If not, it has been refused.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	users := h.users.Load()
	if users == nil {
		return true
	}
	allowed, err := users.allow(r)
	switch {
	case err != nil:
		w.Header().Set("Retry-After", "1")
		refuse(w, errcode.ErrorCodeTooManyRequests.WithMessage(err.Error()))
	case !allowed:
		w.Header().Set("WWW-Authenticate", `Basic realm="sealer"`)
		refuse(w, errcode.ErrorCodeUnauthorized)
	}
	return allowed
}

// serve answers r and returns the name of the endpoint.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) string {
	all, done := h.contents.use()
	defer done()
	if len(all) == 0 {
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return "closed"
	}
	if r.URL.Path == HealthPath {
		health(w, all[0])
		return "health"
	}
	if !h.admit(w, r) {
		return "denied"
	}
	if r.URL.Path == MetricsPath {
		h.metrics.ServeHTTP(w, r)
		return "metrics"
	}
	q, ok := parse(r.URL)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuseWrite(w, q)
		return "refused"
	}
	if !ok { // the base, the catalog, and paths that distribution answers with 404
		h.pass(w, r, all[0])
		return "base"
	}
	endpoint := q.kind.String()
	if q.kind == referrers {
		serveReferrers(w, r, all, q)
		return endpoint
	}
	c, repository, ok := find(all, r.URL.Query().Get("ns"), q)
	if !ok {
		unknown(w, q)
		return endpoint
	}
	if repository != q.name || r.URL.Query().Has("ns") {
		r = r.Clone(r.Context())
		r.URL = &url.URL{Path: "/v2/" + repository + q.rest, RawQuery: without(r.URL.Query(), "ns")}
		r.RequestURI = r.URL.RequestURI()
	}
	switch q.kind {
	case manifests:
		h.pass(w, acceptAll(r), c)
	case blobs:
		serveBlob(w, r, q.reference, func(w http.ResponseWriter, r *http.Request) { h.pass(w, r, c) })
	default:
		h.pass(w, r, c)
	}
	return endpoint
}

func (h *Handler) pass(w http.ResponseWriter, r *http.Request, c *content) {
	c.app.ServeHTTP(w, r.WithContext(quieten(r.Context(), h.log)))
}

func health(w http.ResponseWriter, c *content) {
	for _, d := range c.layers.roots {
		if !whole(d) {
			http.Error(w, "a layer is gone or cannot be read", http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = w.Write([]byte("ok\n")) // the client may have gone
}

// A request is a parsed URL of the API.
type request struct {
	name      string
	kind      kind
	reference string // tag or digest
	rest      string // of the path, after the name
}

// parse reads the paths that contain a repository name; see "Endpoints" in the
// OCI distribution specification.
func parse(u *url.URL) (request, bool) {
	path, ok := strings.CutPrefix(u.Path, "/v2/")
	if !ok {
		return request{}, false
	}
	if name, ok := strings.CutSuffix(path, "/tags/list"); ok {
		return request{name, tags, "", "/tags/list"}, true
	}
	for _, k := range []kind{manifests, blobs, referrers} {
		part := "/" + k.String() + "/"
		if i := strings.LastIndex(path, part); i > 0 {
			return request{path[:i], k, path[i+len(part):], path[i:]}, true
		}
	}
	return request{}, false
}

func without(q url.Values, key string) string {
	q.Del(key)
	return q.Encode()
}

// acceptAll makes the handlers return a manifest as it was mirrored to a client
// that sends no Accept header or accepts anything. Without it, distribution
// answers 404 for OCI manifests, and one platform's manifest for a Docker
// manifest list.
func acceptAll(r *http.Request) *http.Request {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept != "" && !strings.Contains(accept, "*/*") {
		return r
	}
	r = r.Clone(r.Context())
	r.Header["Accept"] = []string{
		ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest,
		platform.MediaTypeDockerList, platform.MediaTypeDockerManifest,
	}
	return r
}

// refuseWrite answers a request that would change something. A reference that
// looks like a bad digest is refused as such first, because the conformance suite
// of the specification asks for it even of a read-only registry.
func refuseWrite(w http.ResponseWriter, q request) {
	if _, err := digest.Parse(q.reference); err != nil && q.kind == manifests && strings.Contains(q.reference, ":") {
		refuse(w, errcode.ErrorCodeDigestInvalid.WithDetail(q.reference))
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	refuse(w, errcode.ErrorCodeUnsupported.WithMessage("this registry serves a ClusterImage and is read-only"))
}

func unknown(w http.ResponseWriter, q request) {
	code := errcode.ErrorCodeNameUnknown
	switch q.kind {
	case manifests:
		code = errcode.ErrorCodeManifestUnknown
	case blobs:
		code = errcode.ErrorCodeBlobUnknown
	}
	refuse(w, code.WithDetail(map[string]string{"name": q.name, "reference": q.reference}))
}

func refuse(w http.ResponseWriter, err error) {
	_ = errcode.ServeJSON(w, err) // the client may have gone
}
