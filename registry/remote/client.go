package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/net/http/httpproxy"
)

// A Credential is a user's right at one registry. A Password without a Username
// is a token that the registry exchanges for access ("identity token").
type Credential struct {
	Registry           string // host[:port] as references name it, "docker.io" for Docker Hub
	Username, Password string
}

// LogValue hides the password from logs.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.Username + "@" + c.Registry) }

// Format hides the password from every form of printing.
func (c Credential) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s@%s", c.Username, c.Registry)
}

// Options says how a Client reaches registries. The zero value uses the
// machine's own configuration, as podman finds it.
type Options struct {
	RegistriesConf string        // registries.conf; "" means CONTAINERS_REGISTRIES_CONF, else the user's, else the system's
	AuthFile       string        // auth file to read and to log in to; "" means REGISTRY_AUTH_FILE, else the defaults of containers and Docker
	CertsDir       string        // directory of HOST/*.crt, *.cert, *.key; "" means the user's and the system's certs.d
	Insecure       []string      // registries that may be asked without verified TLS: host[:port], or http://host[:port] where it speaks plain http
	Credentials    []Credential  // used before the auth files
	UserAgent      string        // "" means "sealer"
	Jobs           int           // blobs at a time over all registries; 0 means 8. Requests are limited to twice as many, see requestsPerJob
	Retries        int           // further attempts after a transient failure; 0 means 5, negative none
	Backoff        time.Duration // before the first further attempt, then doubled; 0 means 250 ms
	Policy         Policy        // says which images may be taken; nil takes all
	Stall          time.Duration // a transfer, up or down, of less than MinRate over so long is cut off and resumed; 0 means 60 s, negative never
	Logger         *slog.Logger  // nil discards
}

// MinRate is the least rate of a transfer, in bytes a second over Options.Stall. A
// registry that sends a byte now and then must not hold a run for ever.
const MinRate = 1000

// DefaultJobs is the default number of concurrent transfers. Measured at 30 ms
// round trip: 4 take 1.1 times the wall time of 8, and 16 are no better.
const DefaultJobs = 8

// requestsPerJob is the number of requests in flight, and of connections kept,
// for each concurrent blob. Manifests and HEADs are so small that only round
// trips count: 16 at a time take half the rounds of 8. Blobs gain nothing from
// it.
const requestsPerJob = 2

// A Client reads from and writes to registries. It is safe for concurrent use.
type Client struct {
	*shared
	cred    *Credential // of As
	retries int         // further attempts after a transient failure
}

// shared is the state that all Clients made by As share.
type shared struct {
	o     Options
	sys   *types.SystemContext
	log   *slog.Logger
	proxy func(*url.URL) (*url.URL, error)
	slots chan struct{} // one for each request in flight

	mu        sync.Mutex
	hosts     map[hostKey]*host
	preferred map[string]string // repository name -> location that answered last
}

// A Source has the blobs that Push sends.
type Source interface {
	// OpenBlob returns a blob's file, for the caller to close.
	OpenBlob(ctx context.Context, d digest.Digest) (*os.File, error)
}

// A Sink takes the content that Pull and Walk fetch.
type Sink interface {
	// HasBlob reports whether the sink has d, whole and verified.
	HasBlob(ctx context.Context, d digest.Digest) (bool, error)
	// ReadBlob returns a blob of at most limit bytes.
	ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error)
	// PutBlob stores the bytes that write writes as desc, after it has checked
	// size and digest. Its error names the blob. It does not call write when the
	// sink has the blob, and only one caller at a time calls write for a digest.
	PutBlob(ctx context.Context, desc ocispec.Descriptor, write func(w io.Writer) error) error
}

// A Resumer is a writer of a blob that may have the first bytes from an attempt
// of an earlier run. PutBlob may pass one to write.
type Resumer interface {
	io.Writer
	// Resume returns the number of bytes that are there: the next Write goes on
	// after them. The bytes written from then on are kept for another run.
	Resume() (int64, error)
	// Restart drops all bytes, those written since Resume too.
	Restart() error
}

// An Event reports the progress of a transfer. Done and Total are bytes over the
// whole run.
type Event struct {
	Op        string        // "resolve", "fetch", "push", "mount", "exists" (the target has it) or "manifest"
	Reference string        // the image, when the event belongs to one
	Digest    digest.Digest // the blob, when it belongs to one
	Size      int64         // bytes of the blob
	Finished  bool          // the blob or the reference is done
	Done      int64
	Total     int64
}

// New returns a Client. It reads registries.conf, and fails if that file is
// wrong.
func New(o Options) (*Client, error) {
	o.Jobs = cmp.Or(max(o.Jobs, 0), DefaultJobs)
	o.Retries = cmp.Or(o.Retries, 5)
	o.Backoff = cmp.Or(o.Backoff, 250*time.Millisecond)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	o.UserAgent = cmp.Or(o.UserAgent, "sealer")
	o.RegistriesConf = cmp.Or(o.RegistriesConf, os.Getenv("CONTAINERS_REGISTRIES_CONF"))
	o.AuthFile = cmp.Or(o.AuthFile, os.Getenv("REGISTRY_AUTH_FILE"))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, h := range o.Insecure {
		host := strings.TrimPrefix(h, "http://")
		if i := strings.LastIndex(host, "@"); i >= 0 { // no password into a log
			return nil, fmt.Errorf("insecure registry %q: want it without user and password", host[i+1:])
		}
		if strings.Contains(host, "/") || host == "" {
			return nil, fmt.Errorf("insecure registry %q: want host[:port] or http://host[:port]", h)
		}
	}
	s := &shared{
		o: o,
		sys: &types.SystemContext{
			SystemRegistriesConfPath: o.RegistriesConf,
			AuthFilePath:             o.AuthFile,
		},
		log:       o.Logger,
		proxy:     httpproxy.FromEnvironment().ProxyFunc(),
		slots:     make(chan struct{}, requestsPerJob*o.Jobs),
		hosts:     map[hostKey]*host{},
		preferred: map[string]string{},
	}
	if _, err := sysregistriesv2.TryUpdatingCache(s.sys); err != nil {
		return nil, fmt.Errorf("read %s: %w", sysregistriesv2.ConfigurationSourceDescription(s.sys), err)
	}
	return &Client{shared: s, retries: max(o.Retries, 0)}, nil
}

// As returns a Client that uses cred for cred's registry, before all other
// credentials, and shares connections and limits with c. A nil cred returns c.
func (c *Client) As(cred *Credential) *Client {
	if cred == nil {
		return c
	}
	return &Client{shared: c.shared, cred: cred, retries: c.retries}
}

// Logger returns the Logger of the Options.
func (c *Client) Logger() *slog.Logger { return c.log }

// withoutRetry returns a Client that does not try again after a transient failure.
func (c *Client) withoutRetry() *Client { return &Client{shared: c.shared, cred: c.cred} }

func (s *shared) proxyFor(r *http.Request) (*url.URL, error) { return s.proxy(r.URL) }
