package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// Errors that a registry's answer is turned into; test with errors.Is.
var (
	ErrNotFound     = errors.New("not found")
	ErrUnauthorized = errors.New("unauthorized") // no or wrong credentials, or no permission
	ErrBlocked      = errors.New("blocked by registries.conf")
	ErrUnsupported  = errors.New("unsupported content") // schema 1, nested index, unknown media type
	ErrDigest       = errors.New("content does not match its digest")
	ErrPlatform     = errors.New("platform not in the image")
)

// A Credential is a user's right at one registry.
type Credential struct {
	Registry           string // host[:port] as references name it, "docker.io" for Docker Hub
	Username, Password string
}

// Options says how a Client reaches registries. The zero value uses the
// machine's own configuration, as podman finds it.
type Options struct {
	RegistriesConf string       // registries.conf; "" means CONTAINERS_REGISTRIES_CONF, else the user's, else the system's
	AuthFile       string       // auth file to read and to log in to; "" means REGISTRY_AUTH_FILE, else the defaults of containers and Docker
	CertsDir       string       // directory of HOST/*.crt, *.cert, *.key; "" means the user's and the system's certs.d
	Insecure       []string     // registries that may be asked without verified TLS: host[:port], or http://host[:port] where it speaks plain http
	Credentials    []Credential // used before the auth files
	UserAgent      string       // "" means "sealer"
	Jobs           int          // transfers at a time, over all registries, and connections to one; 0 means 8
	Retries        int          // further attempts after a transient failure; 0 means 5, negative none
	Backoff        time.Duration
	Logger         *slog.Logger // nil discards
}

// A Client reads from and writes to registries. It is safe for concurrent use.
type Client struct {
	o Options
}

// A Source gives the content that Push sends. OpenBlob's file is closed by the
// caller; its content must be what d says.
type Source interface {
	OpenBlob(ctx context.Context, d digest.Digest) (*os.File, error)
}

// A Sink takes the content that Pull brings.
type Sink interface {
	// HasBlob reports whether d is there, whole and verified.
	HasBlob(ctx context.Context, d digest.Digest) (bool, error)
	// ReadBlob returns a blob of at most limit bytes.
	ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error)
	// PutBlob stores what write writes as desc, after it has checked size and
	// digest. It does not call write when the blob is there already.
	PutBlob(ctx context.Context, desc ocispec.Descriptor, write func(w io.Writer) error) error
}

// An Event tells what a transfer does. Done and Total are bytes over the whole
// run; Total grows while manifests are read.
type Event struct {
	Op        string // "resolve", "fetch", "push", "mount", "exists", "manifest"
	Reference string // the image, when the event belongs to one
	Digest    digest.Digest
	Size      int64 // bytes of the blob
	Finished  bool  // the blob or reference is done
	Done      int64
	Total     int64
}

// PushOptions steers Push. The zero value works.
type PushOptions struct {
	// MountFrom gives for a blob the repositories of the target's registry that
	// may have it already: Push asks the registry to mount it from there.
	MountFrom map[digest.Digest][]string
	Progress  func(Event) // called concurrently; nil for none
}

// PullOptions steers Pull. The zero value pulls every platform.
type PullOptions struct {
	Platforms []ocispec.Platform // of an index, fetch these only; empty means all
	Progress  func(Event)        // called concurrently; nil for none
}

var errNotYet = errors.New("not written yet")

// New returns a Client. It reads registries.conf, and fails when it is wrong.
func New(o Options) (*Client, error) { return &Client{o: o}, nil }

// As returns a Client that uses cred for cred's registry, before all others,
// and shares connections and limits with c. A nil cred returns c.
func (c *Client) As(cred *Credential) *Client { return c }

// Resolve asks for the descriptor of r with HEAD.
func (c *Client) Resolve(ctx context.Context, r ref.Reference) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errNotYet
}

// Manifest returns the bytes of the manifest or index r, of at most 4 MiB,
// verified against r's digest, or the one that the registry claims for r's tag.
func (c *Client) Manifest(ctx context.Context, r ref.Reference) (ocispec.Descriptor, []byte, error) {
	return ocispec.Descriptor{}, nil, errNotYet
}

// Blob writes the blob desc of r's repository to w: exactly desc.Size bytes, or
// an error. A broken transfer goes on where it broke. The bytes are not hashed:
// w must check them.
func (c *Client) Blob(ctx context.Context, r ref.Reference, desc ocispec.Descriptor, w io.Writer) error {
	return errNotYet
}

// Push sends the manifest or index desc, and all that it names and the target
// lacks, to the repository of to, and tags it where to has a tag.
func (c *Client) Push(ctx context.Context, src Source, desc ocispec.Descriptor, to ref.Reference, o PushOptions) error {
	return errNotYet
}

// Pull brings the image from into sink and returns its descriptor.
func (c *Client) Pull(ctx context.Context, sink Sink, from ref.Reference, o PullOptions) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errNotYet
}

// Login checks user and password at host and saves them in the auth file, or
// the credential helper that is configured for host. It returns where.
func (c *Client) Login(ctx context.Context, host, user, password string) (string, error) {
	return "", errNotYet
}

// Logout removes the credentials for host.
func (c *Client) Logout(host string) error { return errNotYet }
