package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/image/v5/pkg/tlsclientconfig"

	"github.com/clusterimage/sealer/registry/ref"
)

// hostKey identifies a host and its trust: registries.conf may call a registry
// insecure under one prefix and not under another.
type hostKey struct {
	name     string
	insecure bool
	tls      tlsFiles
}

// tlsFiles are settings of an Access for TLS.
type tlsFiles struct {
	ca, cert, key string // names of PEM files
	unverified    bool
}

// host is one registry server: the way to connect to it, and its state.
type host struct {
	name     string // as references name it: "docker.io"
	addr     string // host[:port] to connect to
	insecure bool   // the user allowed unverified TLS and plain http
	rt       http.RoundTripper
	answered atomic.Bool  // with any status
	served   atomic.Int64 // requests that did not fail
	busy     atomic.Int64 // no request before this time, nanoseconds since 1970: the host asked for a pause

	mu     sync.Mutex
	scheme string // "" until an insecure host has been probed
	auth   authState
}

// host returns the server for name, with its transport.
func (s *shared) host(name string, insecure bool) (*host, error) {
	return s.hostWith(name, insecure, tlsFiles{})
}

// hostWith is host with the settings of an Access: where there are any, the host is asked
// over https alone.
func (s *shared) hostWith(name string, insecure bool, files tlsFiles) (*host, error) {
	plain := false
	for _, h := range s.o.Insecure {
		bare, isPlain := strings.CutPrefix(h, "http://")
		if bare == name {
			insecure, plain = true, plain || isPlain
		}
	}
	key := hostKey{name, insecure, files}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[key]; h != nil {
		return h, nil
	}
	h := &host{name: name, addr: name, insecure: insecure, auth: newAuthState()}
	if name == "docker.io" {
		h.addr = "registry-1.docker.io"
	}
	switch {
	case plain:
		h.scheme = "http"
	case !insecure:
		h.scheme = "https"
	}
	tlsConfig, err := s.tlsConfig(h)
	if err != nil {
		return nil, err
	}
	if files != (tlsFiles{}) {
		h.scheme = "https"
		if err := files.apply(tlsConfig); err != nil {
			return nil, fmt.Errorf("certificates of %s: %w", name, err)
		}
	}
	h.rt = s.transport(tlsConfig)
	s.hosts[key] = h
	return h, nil
}

// transport speaks HTTP/1.1 only, with a connection for each request in flight.
// Over TLS Go would choose HTTP/2 and carry all blobs of a host in one
// connection: measured 2.5 times slower on a link that limits the rate of a
// connection, with 1.4 times the CPU. Connections are kept: 1.2 times faster at
// 30 ms.
func (s *shared) transport(c *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 s.proxyFor,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       c,
		TLSHandshakeTimeout:   20 * time.Second,
		Protocols:             protocols,
		MaxConnsPerHost:       requestsPerJob * s.o.Jobs,
		MaxIdleConnsPerHost:   requestsPerJob * s.o.Jobs,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true, // bytes as they are: layers are compressed already
		ReadBufferSize:        64 << 10,
		ExpectContinueTimeout: time.Second,
	}
}

// tlsConfig builds h's TLS settings from certs.d. A file there that cannot be
// used is an error: the user asked for settings that cannot be had.
func (s *shared) tlsConfig(h *host) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: h.insecure,
		ClientSessionCache: tls.NewLRUClientSessionCache(requestsPerJob * s.o.Jobs),
	}
	for _, dir := range s.certDirs(h) {
		if err := checkAuthorities(dir); err != nil {
			return nil, err
		}
		if err := tlsclientconfig.SetupCertificates(dir, c); err != nil {
			return nil, fmt.Errorf("read certificates of %s: %w", h.name, err)
		}
		if len(c.Certificates) > 0 || c.RootCAs != nil {
			break
		}
	}
	return c, nil
}

// apply puts the settings into c, in place of those of certs.d. The errors name files, and
// tell nothing of their content.
func (f tlsFiles) apply(c *tls.Config) error {
	c.InsecureSkipVerify = c.InsecureSkipVerify || f.unverified
	if f.ca != "" {
		data, err := os.ReadFile(f.ca)
		if err != nil {
			return err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s: no certificate in it", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("client certificate %s with key %s: %w", f.cert, f.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// rest delays all requests to h by d, the pause that h asked for with a 429.
// Without it, h would refuse the other waiting requests one by one.
func (h *host) rest(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	for old := h.busy.Load(); old < until && !h.busy.CompareAndSwap(old, until); old = h.busy.Load() {
	}
}

// rested waits until requests to h are allowed again.
func (h *host) rested(ctx context.Context) error {
	for {
		left := h.busy.Load() - time.Now().UnixNano()
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(time.Duration(left)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// certParents returns the directories that hold one directory for each host: dir,
// or where there is none the user's and the system's.
func certParents(dir string) []string {
	if dir != "" {
		return []string{dir}
	}
	parents := []string{"/etc/containers/certs.d", "/etc/docker/certs.d"}
	if home, err := os.UserHomeDir(); err == nil {
		parents = append([]string{filepath.Join(home, ".config/containers/certs.d")}, parents...)
	}
	return parents
}

// certDirs returns the directories with certificates for h; the first that exists
// wins. The order is podman's, see containers-certs.d(5).
func (s *shared) certDirs(h *host) []string {
	var dirs []string
	for _, p := range certParents(s.o.CertsDir) {
		dirs = append(dirs, filepath.Join(p, h.name))
		if h.addr != h.name {
			dirs = append(dirs, filepath.Join(p, h.addr))
		}
	}
	return dirs
}

// checkAuthorities refuses a *.crt file without a certificate, which the standard
// library would pass over.
func checkAuthorities(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read certificates: %w", err)
		}
		block, _ := pem.Decode(b)
		if block == nil {
			return fmt.Errorf("read certificates: %s: no PEM block in it", name)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("read certificates: %s: %w", name, err)
		}
	}
	return nil
}

// base returns h's scheme and address. An insecure host is probed once for its
// scheme, https first, so that a transfer is encrypted if it can be. A host that
// the user did not call insecure is only ever asked over verified https.
func (c *Client) base(ctx context.Context, h *host) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.scheme != "" {
		return h.scheme + "://" + h.addr, nil
	}
	var errs []error
	for _, scheme := range []string{"https", "http"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+h.addr+"/v2/", nil)
		if err != nil {
			return "", fmt.Errorf("registry %s: %w", h.name, err)
		}
		req.Header.Set("User-Agent", c.o.UserAgent)
		resp, err := h.rt.RoundTrip(req)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", scheme, err))
			continue
		}
		resp.Body.Close()
		h.answered.Store(true)
		h.auth.learn(resp)
		h.scheme = scheme
		return h.scheme + "://" + h.addr, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", h.unreached(fmt.Errorf("registry %s speaks neither https nor http: %w", h.name, oneLine(errs)))
}

// Ping asks r's registry whether it serves. A refusal for lack of credentials is
// an answer, too. It does not try again.
func (c *Client) Ping(ctx context.Context, r ref.Reference) error {
	t, err := c.destination(r)
	if err != nil {
		return err
	}
	resp, err := c.withoutRetry().do(ctx, t, request{method: http.MethodGet, path: "/v2/", ok: []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
