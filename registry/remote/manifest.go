package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// MaxManifest is the most bytes that a manifest or an index may have, as the
// OCI distribution specification has it.
const MaxManifest = 4 << 20

// Media types of Docker's image manifest, version 2, schema 2, and of its
// manifest list.
const (
	MediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	MediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	mediaTypeSchema1        = "application/vnd.docker.distribution.manifest.v1+json"
	mediaTypeSchema1Signed  = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

var accept = []string{strings.Join([]string{
	ocispec.MediaTypeImageIndex, MediaTypeDockerList, ocispec.MediaTypeImageManifest, MediaTypeDockerManifest,
}, ", ")}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == MediaTypeDockerList
}

func isManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == MediaTypeDockerManifest
}

// Refresh asks which manifest the tag of r names now, known being the last that
// it named. The content is nil when that is so, or when the registry told the
// digest only. A verified content comes with its descriptor.
//
// It is one request either way: a GET on condition that the tag has moved, which
// saves the round trip of a HEAD before it when it has; registries that know no
// conditions send the manifest. Docker Hub is asked with HEAD, since it counts
// every GET of a manifest, and lets a user make a hundred or two in six hours.
func (c *Client) Refresh(ctx context.Context, r ref.Reference, known digest.Digest) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	err := c.read(ctx, r, func(c *Client, t target) (err error) {
		if t.host.name == ref.DefaultRegistry {
			d, err = c.head(ctx, t, r)
			if err != nil || d.Digest != "" {
				return err
			}
		}
		d, b, err = c.manifest(ctx, t, r, known)
		return err
	})
	return d, b, err
}

// head asks for the descriptor of the tag r. It is zero where the registry does
// not say the digest, or knows no HEAD.
func (c *Client) head(ctx context.Context, t target, r ref.Reference) (ocispec.Descriptor, error) {
	q := manifestRequest(http.MethodHead, t, r)
	q.ok = []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	resp, err := c.do(ctx, t, q)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	resp.Body.Close()
	d := ocispec.Descriptor{
		MediaType: mediaType(resp.Header),
		Digest:    digest.Digest(resp.Header.Get("Docker-Content-Digest")),
		Size:      resp.ContentLength,
	}
	if resp.StatusCode != http.StatusOK || d.Digest == "" || d.Size < 0 || d.Size > MaxManifest {
		return ocispec.Descriptor{}, nil
	}
	if err := checkDigest(d.Digest); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s answers: %w", t, err)
	}
	return d, nil
}

// Manifest returns the descriptor and the bytes of the manifest or index r: of
// r's digest where it has one, else of its tag. The bytes are verified: against
// r's digest, else against the digest that the registry announces. The error
// wraps ErrDigest when they do not match, ErrUnsupported for what is neither an
// OCI nor a Docker schema 2 manifest or index.
func (c *Client) Manifest(ctx context.Context, r ref.Reference) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	if err := checkDigest(r.Digest); err != nil {
		return d, nil, err
	}
	err := c.read(ctx, r, func(c *Client, t target) (err error) {
		d, b, err = c.manifest(ctx, t, r, "")
		return err
	})
	return d, b, err
}

func manifestRequest(method string, t target, r ref.Reference) request {
	name := r.Tag
	if r.Digest != "" {
		name = r.Digest.String()
	}
	return request{
		method: method,
		path:   "/v2/" + t.repository + "/manifests/" + name,
		header: http.Header{"Accept": accept},
		scope:  pullScope(t.repository),
	}
}

// manifest reads r from t; nothing when it still has the digest known, which may
// be "".
func (c *Client) manifest(ctx context.Context, t target, r ref.Reference, known digest.Digest) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	q := manifestRequest(http.MethodGet, t, r)
	if known != "" && r.Digest == "" { // distribution answers 304 to its own digest even for what it lacks
		q.header.Set("If-None-Match", `"`+known.String()+`"`)
		q.ok = []int{http.StatusOK, http.StatusNotModified}
	}
	err := c.retry(ctx, func(int) (bool, error) {
		resp, err := c.once(ctx, t, q)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusNotModified {
			d, b = ocispec.Descriptor{Digest: known}, nil
			return false, nil
		}
		what := describe(q.method, resp.Request.URL)
		if resp.ContentLength > MaxManifest {
			return false, fmt.Errorf("%s: a manifest of %d bytes, the limit is %d: %w", what, resp.ContentLength, MaxManifest, ErrUnsupported)
		}
		if b, err = io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1)); err != nil {
			return false, fmt.Errorf("%s: %w", what, err)
		}
		if len(b) > MaxManifest {
			return false, fmt.Errorf("%s: a manifest of more than %d bytes: %w", what, MaxManifest, ErrUnsupported)
		}
		d = ocispec.Descriptor{MediaType: mediaType(resp.Header), Digest: digest.FromBytes(b), Size: int64(len(b))}
		want := r.Digest
		if want == "" {
			want = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
		}
		if want != "" && want != d.Digest {
			return false, fmt.Errorf("%s: the manifest's digest is %s, not %s: %w", what, d.Digest, want, ErrDigest)
		}
		return false, nil
	})
	if err != nil || b == nil {
		return d, nil, err
	}
	parsed, err := ParseManifest(d.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, nil, fmt.Errorf("%s%s: %w", t, r.Suffix(), err)
	}
	d.MediaType = parsed.MediaType
	return d, b, nil
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// checkDigest accepts "" and a well-formed SHA-256 digest, the only kind that
// the store keeps.
func checkDigest(d digest.Digest) error {
	if d == "" || ref.IsSHA256(d) {
		return nil
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", printable(d.String(), 100), err)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("digest %s: only sha256 is kept: %w", d, ErrUnsupported)
	}
	return nil
}

// A Parsed is a manifest or an index, decoded. Of a manifest, Manifests is
// empty; of an index, Config and Layers are.
type Parsed struct {
	MediaType string
	Manifests []ocispec.Descriptor
	Config    ocispec.Descriptor
	Layers    []ocispec.Descriptor
}

// IsIndex reports whether p is an index or a Docker manifest list.
func (p *Parsed) IsIndex() bool { return isIndex(p.MediaType) }

// ParseManifest decodes a manifest or an index. mediaType is what its
// descriptor or the HTTP header says; the document's own mediaType must not
// contradict it. The error wraps ErrUnsupported for schema 1 and other kinds,
// and for a document that could be read as both kinds (CVE-2021-41190).
func ParseManifest(mediaType string, b []byte) (*Parsed, error) {
	var doc struct {
		SchemaVersion int                   `json:"schemaVersion"`
		MediaType     string                `json:"mediaType"`
		Manifests     *[]ocispec.Descriptor `json:"manifests"`
		Config        *ocispec.Descriptor   `json:"config"`
		Layers        *[]ocispec.Descriptor `json:"layers"`
		FSLayers      json.RawMessage       `json:"fsLayers"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("manifest: content of type %q is not JSON: %w", printable(mediaType, 100), err)
	}
	known := isIndex(mediaType) || isManifest(mediaType)
	switch {
	case mediaType == mediaTypeSchema1, mediaType == mediaTypeSchema1Signed, doc.SchemaVersion == 1:
		return nil, fmt.Errorf("a Docker schema 1 manifest, which has no place in current runtimes; push the image again with a current tool: %w", ErrUnsupported)
	case known && doc.MediaType != "" && doc.MediaType != mediaType:
		return nil, fmt.Errorf("manifest: its descriptor says %s, it says itself %q: %w", mediaType, printable(doc.MediaType, 100), ErrUnsupported)
	case !known && doc.MediaType != "":
		mediaType = doc.MediaType
	case !known && doc.Manifests != nil:
		mediaType = ocispec.MediaTypeImageIndex
	case !known && doc.Config != nil:
		mediaType = ocispec.MediaTypeImageManifest
	}
	p := &Parsed{MediaType: mediaType}
	var all []ocispec.Descriptor
	switch {
	case doc.Manifests != nil && (doc.Layers != nil || doc.Config != nil || doc.FSLayers != nil):
		return nil, fmt.Errorf("manifest: it is a manifest and an index at once: %w", ErrUnsupported)
	case isIndex(mediaType) && doc.Manifests != nil:
		p.Manifests = *doc.Manifests
		all = p.Manifests
	case isManifest(mediaType) && doc.Config != nil:
		p.Config = *doc.Config
		if doc.Layers != nil {
			p.Layers = *doc.Layers
		}
		all = append(slices.Clone(p.Layers), p.Config)
	default:
		return nil, fmt.Errorf("content of type %q is no image manifest: %w", printable(mediaType, 100), ErrUnsupported)
	}
	sizes := map[digest.Digest]int64{}
	for _, d := range all {
		if err := checkDigest(d.Digest); err != nil || d.Digest == "" || d.Size < 0 {
			return nil, fmt.Errorf("manifest: descriptor %q of %d bytes: %w", printable(d.Digest.String(), 100), d.Size, ErrUnsupported)
		}
		if size, ok := sizes[d.Digest]; ok && size != d.Size {
			return nil, fmt.Errorf("manifest: it says that %s has %d bytes, and that it has %d: %w", d.Digest, size, d.Size, ErrDigest)
		}
		sizes[d.Digest] = d.Size
	}
	return p, nil
}
