package registrytest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // storage of Options.Dir
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"   // storage otherwise
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"
)

// newApp returns distribution's handlers. The configuration is made here and
// not parsed, since its parser lets REGISTRY_* variables of the environment
// override everything. Validation is off, so that an index may lack children.
func newApp(ctx context.Context, dir string) *handlers.App {
	c := &configuration.Configuration{}
	c.Storage = configuration.Storage{
		"inmemory":    configuration.Parameters{},
		"delete":      configuration.Parameters{"enabled": true},
		"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
	}
	if dir != "" {
		delete(c.Storage, "inmemory")
		c.Storage["filesystem"] = configuration.Parameters{"rootdirectory": dir}
	}
	c.Validation.Disabled = true
	c.Catalog.MaxEntries = 1000    // 0 would be none at all
	c.HTTP.Secret = "registrytest" // signs upload URLs; else distribution warns
	return handlers.NewApp(newQuiet(ctx), c)
}

// quiet is a context that silences distribution, which logs every request to
// logrus' global logger unless its context has a logger, under a key that no
// other module can name.
type quiet struct {
	context.Context
	entry *logrus.Entry
}

func newQuiet(ctx context.Context) quiet {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.PanicLevel)
	return quiet{ctx, logrus.NewEntry(l)}
}

func (q quiet) Value(key any) any {
	if reflect.TypeOf(key).String() == "dcontext.loggerKey" {
		return q.entry
	}
	return q.Context.Value(key)
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	what := parse(r)
	entry := what
	u.mu.Lock()
	u.log = append(u.log, &entry)
	u.mu.Unlock()
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.answer(w, r, what) })
	if do := u.fault(what); do != nil {
		next = do(next)
	}
	next.ServeHTTP(&logWriter{ResponseWriter: w, u: u, entry: &entry}, r)
}

func (u *Upstream) answer(w http.ResponseWriter, r *http.Request, what Request) {
	if what.Level == Token {
		u.serveToken(w, r)
		return
	}
	if !u.authorised(w, r, what) {
		return
	}
	if what.Level == Manifest && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if u.serveRaw(w, r, what) {
			return
		}
		if err := u.invent(what); err != nil {
			sendError(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
			return
		}
	}
	u.app.ServeHTTP(w, r.WithContext(newQuiet(r.Context())))
}

func (u *Upstream) serveRaw(w http.ResponseWriter, r *http.Request, what Request) bool {
	u.mu.Lock()
	m, ok := u.raw[what.Repository+"@"+what.Reference]
	u.mu.Unlock()
	if !ok {
		return false
	}
	w.Header().Set("Content-Type", m.mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(m.body)))
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(m.body).String())
	if r.Method == http.MethodGet {
		_, _ = w.Write(m.body) // the client may have gone
	}
	return true
}

// invent publishes an image under a tag that has none, if Options.Any.
func (u *Upstream) invent(what Request) error {
	if _, err := digest.Parse(what.Reference); err == nil || !u.options.Any {
		return nil
	}
	name := what.Repository + ":" + what.Reference
	u.mu.Lock()
	_, known := u.images["any "+name]
	u.mu.Unlock()
	if known || u.call(http.MethodHead, "/v2/"+what.Repository+"/manifests/"+what.Reference, "", nil).status == http.StatusOK {
		return nil
	}
	c, err := Build(Image{
		Name:      name,
		Platforms: []string{"linux/amd64", "linux/arm64", "linux/arm/v7"},
		Layers:    []Layer{{Name: "any", Size: 8 << 10, Shared: true}, {Name: name, Size: 512}},
	})
	if err != nil {
		return err
	}
	if err := u.publish(what.Repository, what.Reference, c); err != nil {
		return err
	}
	u.mu.Lock()
	u.images["any "+name] = c
	u.mu.Unlock()
	return nil
}

// publish pushes c into the registry, children first.
func (u *Upstream) publish(repository, tag string, c *Content) error {
	u.publishing.Lock()
	defer u.publishing.Unlock()
	manifests := map[digest.Digest]bool{c.Root.Digest: true}
	for _, m := range c.Manifests {
		manifests[m.Digest] = true
	}
	for _, d := range c.order {
		var err error
		if manifests[d.Digest] {
			err = u.put("/v2/"+repository+"/manifests/"+d.Digest.String(), d.MediaType, c.Blobs[d.Digest])
		} else {
			err = u.upload(repository, d.Digest, c.Blobs[d.Digest])
		}
		if err != nil {
			return err
		}
	}
	if tag == "" {
		return nil
	}
	return u.put("/v2/"+repository+"/manifests/"+tag, c.Root.MediaType, c.Blobs[c.Root.Digest])
}

func (u *Upstream) upload(repository string, d digest.Digest, b []byte) error {
	if u.call(http.MethodHead, "/v2/"+repository+"/blobs/"+d.String(), "", nil).status == http.StatusOK {
		return nil
	}
	a := u.call(http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil)
	if a.status != http.StatusAccepted {
		return fmt.Errorf("start upload to %s: %s", repository, a.body.Bytes())
	}
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		return fmt.Errorf("start upload to %s: %w", repository, err)
	}
	q := to.Query()
	q.Set("digest", d.String())
	return u.put(to.Path+"?"+q.Encode(), "application/octet-stream", b)
}

func (u *Upstream) put(path, contentType string, b []byte) error {
	if a := u.call(http.MethodPut, path, contentType, b); a.status != http.StatusCreated {
		return fmt.Errorf("put %s: %s", path, a.body.Bytes())
	}
	return nil
}

// call sends a request to the registry behind log, faults and auth.
func (u *Upstream) call(method, path, contentType string, body []byte) *answer {
	r, err := http.NewRequestWithContext(newQuiet(context.Background()), method, "http://registrytest"+path, bytes.NewReader(body))
	must(err)
	r.Header.Set("Content-Type", contentType)
	for _, accept := range []string{DockerManifest, DockerList, "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"} {
		r.Header.Add("Accept", accept)
	}
	a := newAnswer()
	u.app.ServeHTTP(a, r)
	return a
}

// selfSigned returns a certificate for loopback and its PEM, which is the CA
// to trust.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make certificate: %w", err)
	}
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "registrytest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
