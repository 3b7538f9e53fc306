package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
)

// The limits of what is fetched. Helm refuses charts above 100 MiB unpacked; the
// largest index in use has 30 MiB.
const (
	MaxArchive = 64 << 20 // bytes of an archive
	MaxIndex   = 64 << 20 // bytes of an index.yaml
)

// Media types of a chart in a registry.
const (
	mediaTypeConfig  = "application/vnd.cncf.helm.config.v1+json"
	mediaTypeArchive = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	mediaTypeOld     = "application/tar+gzip" // of Helm 3.0 to 3.6
)

// ErrNoVersion is wrapped by the error for a source without a version that will
// do.
var ErrNoVersion = errors.New("no version of the chart will do")

// A Pin is one version of a source's chart, for good.
type Pin struct {
	Version string
	// Digest is that of the archive, or of the manifest where the source is a
	// registry.
	Digest digest.Digest
}

// A Fetched is a chart that was brought.
type Fetched struct {
	Source  Source
	Pin     Pin
	Archive []byte // a .tgz
}

// File is the usual name of the archive, NAME-VERSION.tgz.
func (f *Fetched) File() string { return f.Source.Name + "-" + f.Pin.Version + ".tgz" }

// A Fetcher brings charts. Indexes are read once. It is not safe for concurrent
// use. Its errors do not name the source.
type Fetcher struct {
	client       *remote.Client
	indexes      map[string]*index
	repositories []repository // of helm's file, once it has been read
	read         bool
}

// NewFetcher returns a Fetcher that asks through c.
func NewFetcher(c *remote.Client) *Fetcher { return &Fetcher{client: c, indexes: map[string]*index{}} }

// Resolve chooses the version of s, as Helm does, and asks for its digest.
func (f *Fetcher) Resolve(ctx context.Context, s Source) (Pin, error) {
	if err := s.Check(); err != nil {
		return Pin{}, err
	}
	if s.IsOCI() {
		return f.resolveOCI(ctx, s)
	}
	e, err := f.entry(ctx, s, Pin{})
	if err != nil {
		return Pin{}, err
	}
	return Pin{Version: e.version, Digest: e.digest}, nil
}

// Fetch brings the chart of s that pin, a result of Resolve, says. Where pin has
// no digest, since the index announces none, the result's Pin has.
func (f *Fetcher) Fetch(ctx context.Context, s Source, pin Pin) (*Fetched, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if _, err := semver.NewVersion(pin.Version); err != nil {
		return nil, fmt.Errorf("version %q: %w", pin.Version, err)
	}
	out := &Fetched{Source: s, Pin: pin}
	var err error
	if s.IsOCI() {
		out.Archive, err = f.pull(ctx, s, pin)
	} else {
		out.Archive, err = f.download(ctx, s, pin)
	}
	if err != nil {
		return nil, err
	}
	if !s.IsOCI() && pin.Digest == "" {
		out.Pin.Digest = digest.FromBytes(out.Archive)
	}
	if !bytes.HasPrefix(out.Archive, []byte{0x1f, 0x8b}) {
		return nil, errors.New("its archive is no gzip file")
	}
	return out, nil
}

// resolveOCI finds the tag and the digest of a chart in a registry.
func (f *Fetcher) resolveOCI(ctx context.Context, s Source) (Pin, error) {
	r, err := s.reference()
	if err != nil {
		return Pin{}, err
	}
	version := s.Version
	switch _, err := semver.StrictNewVersion(version); {
	case strings.HasPrefix(version, "sha256:"):
		r.Tag, r.Digest = "", digest.Digest(version)
	case err == nil:
		r.Tag = tagOf(version)
	default:
		tags, err := f.client.Tags(ctx, r)
		if err != nil {
			return Pin{}, err
		}
		if version, err = choose(tags, version, versionOf); err != nil {
			return Pin{}, err
		}
		r.Tag = tagOf(version)
	}
	desc, manifest, err := f.client.Manifest(ctx, r)
	if err != nil {
		return Pin{}, err
	}
	if err := f.client.Allow(ctx, r, desc.Digest); err != nil {
		return Pin{}, err
	}
	p, err := parseManifest(desc, manifest)
	if err != nil {
		return Pin{}, err
	}
	if r.Tag == "" {
		if version, err = f.configVersion(ctx, r, p); err != nil {
			return Pin{}, err
		}
	}
	return Pin{Version: version, Digest: desc.Digest}, nil
}

// A registry takes no plus sign in a tag, so Helm writes an underscore.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }
func versionOf(tag string) string { return strings.ReplaceAll(tag, "_", "+") }

func parseManifest(desc ocispec.Descriptor, b []byte) (*remote.Parsed, error) {
	p, err := remote.ParseManifest(desc.MediaType, b)
	if err != nil {
		return nil, err
	}
	if p.Config.MediaType != mediaTypeConfig {
		return nil, fmt.Errorf("no Helm chart: its config is of type %.100q: %w", p.Config.MediaType, remote.ErrUnsupported)
	}
	return p, nil
}

// configVersion reads a chart's version from its config.
func (f *Fetcher) configVersion(ctx context.Context, r ref.Reference, p *remote.Parsed) (string, error) {
	b, err := f.blob(ctx, r, p.Config, 1<<20)
	if err != nil {
		return "", err
	}
	var meta struct{ Version string }
	if err := json.Unmarshal(b, &meta); err != nil {
		return "", fmt.Errorf("read the config: %w", err)
	}
	if _, err := semver.NewVersion(meta.Version); err != nil {
		return "", fmt.Errorf("the config's version %.50q: %w", meta.Version, err)
	}
	return meta.Version, nil
}

// pull brings the archive of a chart in a registry.
func (f *Fetcher) pull(ctx context.Context, s Source, pin Pin) ([]byte, error) {
	r, err := s.reference()
	if err != nil {
		return nil, err
	}
	r.Tag, r.Digest = "", pin.Digest
	desc, manifest, err := f.client.Manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := f.client.Allow(ctx, r, desc.Digest); err != nil {
		return nil, err
	}
	p, err := parseManifest(desc, manifest)
	if err != nil {
		return nil, err
	}
	for _, l := range p.Layers {
		if l.MediaType == mediaTypeArchive || l.MediaType == mediaTypeOld {
			return f.blob(ctx, r, l, MaxArchive)
		}
	}
	return nil, fmt.Errorf("no Helm chart: no layer of type %s: %w", mediaTypeArchive, remote.ErrUnsupported)
}

// blob reads a blob and checks its digest.
func (f *Fetcher) blob(ctx context.Context, r ref.Reference, desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size > limit {
		return nil, fmt.Errorf("%d bytes, the limit is %d: %w", desc.Size, limit, remote.ErrUnsupported)
	}
	var b bytes.Buffer
	if err := f.client.Blob(ctx, r, desc, &b); err != nil {
		return nil, err
	}
	if got := digest.FromBytes(b.Bytes()); got != desc.Digest {
		return nil, fmt.Errorf("its digest is %s, not %s: %w", got, desc.Digest, remote.ErrDigest)
	}
	return b.Bytes(), nil
}

// download brings the archive that a repository's index names.
func (f *Fetcher) download(ctx context.Context, s Source, pin Pin) ([]byte, error) {
	e, err := f.entry(ctx, s, pin)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(s.Repository + "/")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, text := range e.urls {
		u, err := base.Parse(text)
		if err == nil && u.Scheme == "oci" {
			return nil, fmt.Errorf("the index sends to a registry: write %s", path.Join("oci://", u.Host, u.Path))
		}
		var b []byte
		if err == nil && base.Scheme == "https" && u.Scheme == "http" {
			err = fmt.Errorf("the index leads from https to http: %w", remote.ErrPlainHTTP)
		}
		if err == nil {
			b, err = f.file(ctx, s, u.String(), MaxArchive)
		}
		if err == nil {
			if want := cmpDigest(pin.Digest, e.digest); want != "" && digest.FromBytes(b) != want {
				err = fmt.Errorf("its digest is %s, not %s: %w", digest.FromBytes(b), want, remote.ErrDigest)
			}
		}
		if err == nil {
			return b, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func cmpDigest(a, b digest.Digest) digest.Digest {
	if a != "" {
		return a
	}
	return b
}
