package sbom

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// A Kind is the purpose of an attached artifact.
type Kind string

// The kinds of attached artifacts.
const (
	Signature   Kind = "signature"
	Attestation Kind = "attestation"
	SBOM        Kind = "SBOM"
	Other       Kind = "artifact"
)

// An Attached artifact belongs to an image or to one of its manifests.
type Attached struct {
	Repository string // in the private registry
	Subject    digest.Digest
	Kind       Kind
	Type       string // artifact type, "" where the tag alone says the kind
	Digest     digest.Digest
	// Content are the artifact's layers: of an SBOM the documents.
	Content []ocispec.Descriptor
}

// Blobs are the blobs of an image store. ReadBlob checks the digest of the bytes
// that it returns, and fails for a blob that is longer than limit bytes.
type Blobs interface {
	ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error)
}

const (
	maxManifest = 8 << 20  // bytes
	maxSBOM     = 64 << 20 // bytes
)

// The annotations of BuildKit's attestation manifests in an image index.
const (
	dockerReferenceType   = "vnd.docker.reference.type"
	dockerReferenceDigest = "vnd.docker.reference.digest"
	predicateType         = "in-toto.io/predicate-type"
)

// Find returns the artifacts that the registry layers with the documents docs,
// lowest first, hold of images, sorted by repository, subject and digest. What
// cannot be read is left out, and named in the second result.
func Find(ctx context.Context, docs []*tree.Document, blobs Blobs) ([]Attached, []error) {
	f := finder{blobs: blobs}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, t := range r.Tags {
				if tree.IsAttachmentTag(t.Name) {
					f.tag(ctx, r.Name, t)
				}
			}
			for _, v := range r.Revisions {
				f.index(ctx, r.Name, v)
			}
		}
	}
	slices.SortFunc(f.found, func(a, b Attached) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Digest, b.Digest))
	})
	f.found = slices.CompactFunc(f.found, func(a, b Attached) bool {
		return a.Repository == b.Repository && a.Subject == b.Subject && a.Digest == b.Digest
	})
	return f.found, f.errs
}

// Read returns the SBOMs in an attached artifact: none when it holds none.
func (a Attached) Read(ctx context.Context, blobs Blobs) ([]*Document, error) {
	var out []*Document
	for _, l := range a.Content {
		b, err := blobs.ReadBlob(ctx, l.Digest, maxSBOM)
		if err != nil {
			return out, fmt.Errorf("SBOM %s: %w", a.Digest, err)
		}
		doc, err := Parse(b)
		if err != nil {
			return out, fmt.Errorf("SBOM %s: %w", a.Digest, err)
		}
		out = append(out, doc)
	}
	return out, nil
}

type finder struct {
	blobs Blobs
	found []Attached
	errs  []error
}

// manifest has the fields that are read of manifests of artifacts.
type manifest struct {
	ArtifactType string `json:"artifactType"`
	Config       struct {
		MediaType string `json:"mediaType"`
	} `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Manifests []ocispec.Descriptor `json:"manifests"`
}

func (f *finder) read(ctx context.Context, d digest.Digest) (m manifest, ok bool) {
	b, err := f.blobs.ReadBlob(ctx, d, maxManifest)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("artifact %s: %w", d, err))
	}
	return m, err == nil
}

// tag reads one of the tags under which artifacts lie.
func (f *finder) tag(ctx context.Context, repository string, t tree.Tag) {
	hex, suffix, _ := strings.Cut(strings.TrimPrefix(t.Name, tree.AttachmentPrefix), ".")
	subject := digest.NewDigestFromEncoded(digest.SHA256, hex)
	m, ok := f.read(ctx, t.Digest)
	if !ok {
		return
	}
	if tree.IsReferrersTag(t.Name) {
		for _, d := range m.Manifests {
			f.referrer(ctx, repository, subject, d)
		}
		return
	}
	a := Attached{Repository: repository, Subject: subject, Kind: Signature, Digest: t.Digest}
	switch suffix {
	case "att":
		a.Kind, a.Content = Attestation, sboms(m.Layers, false)
	case "sbom":
		a.Kind, a.Content = SBOM, m.Layers
	}
	f.found = append(f.found, a)
}

// referrer reads an artifact that names the image subject.
func (f *finder) referrer(ctx context.Context, repository string, subject digest.Digest, d ocispec.Descriptor) {
	m, ok := f.read(ctx, d.Digest)
	if !ok {
		return
	}
	a := Attached{Repository: repository, Subject: subject, Digest: d.Digest, Type: cmp.Or(d.ArtifactType, m.ArtifactType, m.Config.MediaType)}
	switch kind := strings.ToLower(a.Type); {
	case isSBOM(kind):
		a.Kind, a.Content = SBOM, m.Layers
	case strings.Contains(kind, "signature") || strings.Contains(kind, "sigstore.bundle") || strings.Contains(kind, "cosign.simplesigning"):
		a.Kind = Signature
	case strings.Contains(kind, "in-toto") || strings.Contains(kind, "dsse") || strings.Contains(kind, "attestation"):
		a.Kind, a.Content = Attestation, sboms(m.Layers, false)
	default:
		a.Kind, a.Content = Other, sboms(m.Layers, true)
	}
	f.found = append(f.found, a)
}

// index reads BuildKit's attestations out of an image index.
func (f *finder) index(ctx context.Context, repository string, v tree.Revision) {
	if v.MediaType != ocispec.MediaTypeImageIndex || len(v.Sources) == 0 {
		return // the index of referrers has no source
	}
	m, ok := f.read(ctx, v.Digest)
	if !ok {
		return
	}
	for _, d := range m.Manifests {
		if d.Annotations[dockerReferenceType] != "attestation-manifest" {
			continue
		}
		b, err := f.blobs.ReadBlob(ctx, d.Digest, maxManifest)
		var inside manifest
		if err != nil || json.Unmarshal(b, &inside) != nil {
			continue // of a platform that was not mirrored
		}
		f.found = append(f.found, Attached{
			Repository: repository, Subject: digest.Digest(d.Annotations[dockerReferenceDigest]), Kind: Attestation, Digest: d.Digest,
			Content: sboms(inside.Layers, false),
		})
	}
}

func isSBOM(kind string) bool {
	return strings.Contains(kind, "spdx") || strings.Contains(kind, "cyclonedx") || strings.Contains(kind, "sbom")
}

// sboms returns the layers that say that they are an SBOM: by their type of
// predicate or, of an artifact of an unknown kind, by their media type.
func sboms(layers []ocispec.Descriptor, byType bool) []ocispec.Descriptor {
	var out []ocispec.Descriptor
	for _, l := range layers {
		predicate := strings.ToLower(l.Annotations[predicateType] + l.Annotations["predicateType"])
		if isSBOM(predicate) || strings.Contains(predicate, "cyclonedx.org") || byType && isSBOM(strings.ToLower(l.MediaType)) {
			out = append(out, l)
		}
	}
	return out
}
