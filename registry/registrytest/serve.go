package registrytest

import (
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

// newApp returns distribution's handlers. The configuration is built here because
// distribution's parser lets REGISTRY_* variables of the environment override
// everything. Without strict, an index may lack
// children.
func newApp(ctx context.Context, dir string, strict bool) *handlers.App {
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
	c.Validation.Disabled = !strict
	c.Catalog.MaxEntries = 1000    // 0 would list none
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
	r.Body = &logBody{r.Body, u, &entry}
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
	if what.Level == Referrers && u.options.Referrers {
		u.serveReferrers(w, what)
		return
	}
	reads := what.Level == Manifest && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	if reads && u.serveRaw(w, r, what) {
		return
	}
	err := u.publish(func(repository string) bool {
		return what.Level == Catalog || repository == what.Repository || repository == r.URL.Query().Get("from") // of a blob to mount
	})
	if err == nil && reads {
		err = u.invent(what)
	}
	if err != nil {
		sendError(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
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
