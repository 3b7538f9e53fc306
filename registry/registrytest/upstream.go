package registrytest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// Options of an Upstream. The zero value is an empty registry in memory, on a
// free port of 127.0.0.1, that everybody may push to and pull from.
type Options struct {
	Addr   string  // address to listen on; "" is 127.0.0.1:0
	Images []Image // published at the start
	// Any makes the upstream answer for every tag of every repository: an image
	// is made from the name on the first request. An unknown digest is still a
	// 404, because no image can be made to fit it.
	Any  bool
	Auth Auth
	// Referrers serves the referrers API of the OCI distribution specification
	// 1.1, which distribution lacks.
	Referrers bool
	// TLS serves https with a certificate of its own, see Upstream.CA.
	TLS bool
	// Strict refuses an index whose manifests are not all there, as distribution
	// does by default.
	Strict bool
	// Dir keeps the registry in a directory, in distribution's layout,
	// instead of in memory.
	Dir string
}

// An Upstream is a registry on loopback. It is safe for concurrent use.
type Upstream struct {
	options Options
	app     *handlers.App
	server  *http.Server
	addr    string
	ca      []byte
	stop    context.CancelFunc

	publishing sync.Mutex // one push into app at a time

	mu      sync.Mutex
	images  map[string]publication   // by normalised reference
	waiting map[string][]publication // by repository, until it is asked for
	paths   map[string]string        // repository by path -> full name that has it
	raw     map[string]rawManifest
	// referrers are artifacts by repository@digest of their subjects.
	referrers map[string][]ocispec.Descriptor
	log       []*Request
	faults    []*injected
	tokens    map[string]*token
	issued    int
}

type rawManifest struct {
	mediaType string
	body      []byte
}

// New starts an upstream that ends with the test.
func New(t testing.TB, o Options) *Upstream {
	t.Helper()
	u, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// Start starts an upstream. Close ends it.
func Start(o Options) (*Upstream, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	ctx, stop := context.WithCancel(context.Background())
	u := &Upstream{
		options: o,
		app:     newApp(ctx, o.Dir, o.Strict),
		stop:    stop,
		images:  map[string]publication{},
		waiting: map[string][]publication{},
		paths:   map[string]string{},
		raw:     map[string]rawManifest{},

		referrers: map[string][]ocispec.Descriptor{},
		tokens:    map[string]*token{},
	}
	for _, img := range o.Images {
		if _, err := u.announce(img); err != nil {
			stop()
			return nil, err
		}
	}
	if o.Dir != "" { // others may read it there
		if err := u.publish(func(string) bool { return true }); err != nil {
			stop()
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		stop()
		return nil, fmt.Errorf("start upstream: %w", err)
	}
	u.addr = listener.Addr().String()
	u.server = &http.Server{Handler: http.HandlerFunc(u.serve), ErrorLog: quietLog()}
	if o.TLS {
		cert, ca, err := selfSigned()
		if err != nil {
			stop()
			return nil, errors.Join(fmt.Errorf("start upstream: %w", err), listener.Close())
		}
		u.ca = ca
		u.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		go func() { _ = u.server.ServeTLS(listener, "", "") }() // ends with Close
		return u, nil
	}
	go func() { _ = u.server.Serve(listener) }() // ends with Close
	return u, nil
}

// Close ends the upstream and breaks its connections.
func (u *Upstream) Close() error {
	defer u.stop()
	if err := u.server.Close(); err != nil {
		return fmt.Errorf("stop upstream: %w", err)
	}
	return u.app.Shutdown()
}

// Host returns host:port, which is also the registry part of a reference.
func (u *Upstream) Host() string { return u.addr }

// URL returns the base URL, without a slash at its end.
func (u *Upstream) URL() string {
	if u.options.TLS {
		return "https://" + u.addr
	}
	return "http://" + u.addr
}

// CA returns the certificate to trust, as PEM; nil without TLS.
func (u *Upstream) CA() []byte { return u.ca }

// Ref returns the reference of an image at the upstream: "nginx" is
// 127.0.0.1:PORT/library/nginx:latest. It panics when name is no reference.
func (u *Upstream) Ref(name string) ref.Reference {
	r, err := ref.Parse(name)
	must(err)
	r.Registry = u.addr
	return r
}

// RegistriesConf returns a registries.conf (version 2, see
// containers-registries.conf(5)) that sends each of hosts to the upstream, over
// plain http where the upstream has no TLS.
func (u *Upstream) RegistriesConf(hosts ...string) string {
	var b strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&b, "[[registry]]\nprefix = %q\nlocation = %q\ninsecure = %v\n\n", h, u.addr+"/"+tree.HostSegment(h), !u.options.TLS)
	}
	return b.String()
}

// Content returns the content published under name. It panics when there is none.
func (u *Upstream) Content(name string) *Content {
	r, err := ref.Parse(name)
	must(err)
	u.mu.Lock()
	p, ok := u.images[r.String()]
	u.mu.Unlock()
	if !ok {
		panic("registrytest: no image " + r.String())
	}
	c, err := p.content()
	must(err)
	return c
}

// SetManifest serves body as the manifest of repository under reference, a tag or
// a digest, and under its own digest, unchecked and before anything that was
// published. It is for manifests that distribution refuses, such as schema 1 or a
// wrong size. It returns the descriptor.
func (u *Upstream) SetManifest(repository, reference, mediaType string, body []byte) ocispec.Descriptor {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(body), Size: int64(len(body))}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range []string{reference, d.Digest.String()} {
		u.raw[repository+"@"+name] = rawManifest{mediaType, body}
	}
	return d
}
