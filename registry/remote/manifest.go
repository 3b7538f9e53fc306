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

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// MaxManifest is the maximum size of a manifest or an index in bytes, as the OCI
// distribution specification recommends.
const MaxManifest = 4 << 20

// Media types of Docker's manifests before schema 2, which are refused by name.
const (
	mediaTypeSchema1       = "application/vnd.docker.distribution.manifest.v1+json"
	mediaTypeSchema1Signed = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

var accept = []string{strings.Join([]string{
	ocispec.MediaTypeImageIndex, platform.MediaTypeDockerList, ocispec.MediaTypeImageManifest, platform.MediaTypeDockerManifest,
}, ", ")}

// Refresh asks which manifest the tag of r names now. known is the digest that
// the tag named last. The content is nil when the tag still names known, or when
// the registry returned only the digest; otherwise it is verified and comes with
// its descriptor.
//
// Refresh sends one request. For most registries that is a GET with
// If-None-Match, which saves the round trip of a HEAD when the tag has moved. A
// registry that ignores the condition sends the manifest. Docker Hub gets a HEAD,
// because it counts every GET of a manifest against a limit of one or two hundred
// in six hours.
func (c *Client) Refresh(ctx context.Context, r ref.Reference, known digest.Digest) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	err := c.read(ctx, r, func(c *Client, t target) (err error) {
		if t.host.name == ref.DockerHub {
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

// head returns the descriptor of the tag r. It is zero when the registry does not
// send the digest, or does not support HEAD.
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

// Manifest returns the descriptor and the bytes of the manifest or index r: by
// r's digest if it has one, else by its tag. The bytes are verified against r's
// digest, else against the digest that the registry announces. The error wraps
// ErrDigest when they do not match, and ErrUnsupported for anything but an OCI or
// Docker schema 2 manifest or index.
func (c *Client) Manifest(ctx context.Context, r ref.Reference) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	if r.Digest != "" {
		if err := checkDigest(r.Digest); err != nil {
			return d, nil, err
		}
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

// manifest reads r from t. With known the request is conditional: if the tag
// still has the digest known, no content is returned.
func (c *Client) manifest(ctx context.Context, t target, r ref.Reference, known digest.Digest) (ocispec.Descriptor, []byte, error) {
	var (
		d ocispec.Descriptor
		b []byte
	)
	q := manifestRequest(http.MethodGet, t, r)
	if known != "" && r.Digest == "" { // by digest distribution answers 304 even if it lacks the manifest
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
		op := describe(q.method, resp.Request.URL)
		if resp.ContentLength > MaxManifest {
			return false, fmt.Errorf("%s: a manifest of %d bytes, the limit is %d: %w", op, resp.ContentLength, MaxManifest, ErrUnsupported)
		}
		if b, err = io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1)); err != nil {
			return false, fmt.Errorf("%s: %w", op, err)
		}
		if len(b) > MaxManifest {
			return false, fmt.Errorf("%s: a manifest of more than %d bytes: %w", op, MaxManifest, ErrUnsupported)
		}
		d = ocispec.Descriptor{MediaType: mediaType(resp.Header), Digest: digest.FromBytes(b), Size: int64(len(b))}
		want := r.Digest
		if want == "" {
			want = digest.Digest(resp.Header.Get("Docker-Content-Digest"))
		}
		if want != "" && want != d.Digest {
			return false, fmt.Errorf("%s: the manifest's digest is %s, not %s: %w", op, d.Digest, want, ErrDigest)
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

// checkDigest is ref.CheckDigest, with errors that wrap ErrUnsupported.
func checkDigest(d digest.Digest) error {
	if err := ref.CheckDigest(d); err != nil {
		return fmt.Errorf("%w: %w", err, ErrUnsupported)
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
func (p *Parsed) IsIndex() bool { return platform.IsIndex(p.MediaType) }

// ParseManifest decodes a manifest or an index. mediaType comes from the
// descriptor or the HTTP header; the document's own mediaType must not contradict
// it. The error wraps ErrUnsupported for schema 1 and other kinds, and for a
// document that could be read as both a manifest and an index (CVE-2021-41190).
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
	known := platform.IsIndex(mediaType) || platform.IsManifest(mediaType)
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
	case platform.IsIndex(mediaType) && doc.Manifests != nil:
		p.Manifests = *doc.Manifests
		all = p.Manifests
	case platform.IsManifest(mediaType) && doc.Config != nil:
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
		if !ref.IsSHA256(d.Digest) || d.Size < 0 {
			return nil, fmt.Errorf("manifest: descriptor %q of %d bytes: %w", printable(d.Digest.String(), 100), d.Size, ErrUnsupported)
		}
		if size, ok := sizes[d.Digest]; ok && size != d.Size {
			return nil, fmt.Errorf("manifest: it says that %s has %d bytes, and that it has %d: %w", d.Digest, size, d.Size, ErrDigest)
		}
		sizes[d.Digest] = d.Size
	}
	return p, nil
}
