package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// An Artifact belongs to an image.
type Artifact struct {
	// Kind is ".sig", ".att" or ".sbom" for one under cosign's tag, else the
	// artifact type of one whose manifest names the image as its subject.
	Kind    string
	Content string
	// Annotations of its layer.
	Annotations map[string]string
}

// Attach publishes an artifact that belongs to the published image name, or to the
// artifact on where it is set. With Options.Referrers the registry lists it;
// otherwise it stands in the index under the tag of the referrers tag schema. It
// returns the digests of the artifact's manifest and of its subject.
func (u *Upstream) Attach(name string, on digest.Digest, a Artifact) (artifact, subject digest.Digest, err error) {
	r, err := ref.Parse(name)
	if err != nil {
		return "", "", fmt.Errorf("attach: %w", err)
	}
	u.mu.Lock()
	p, ok := u.images[r.String()]
	u.mu.Unlock()
	if !ok {
		return "", "", fmt.Errorf("attach: no image %s", r)
	}
	c, err := p.content()
	if err != nil {
		return "", "", err
	}
	to := c.Root
	if on != "" {
		to = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: on, Size: 1}
	}
	for _, repository := range []string{tree.NamingFull.Repository(r), r.Repository} {
		if artifact, err = u.attach(repository, to, a); err != nil {
			return "", "", fmt.Errorf("attach to %s: %w", r, err)
		}
	}
	return artifact, to.Digest, nil
}

func (u *Upstream) attach(repository string, subject ocispec.Descriptor, a Artifact) (digest.Digest, error) {
	content := []byte(a.Content)
	config := []byte("{}")
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{{MediaType: "application/vnd.dev.cosign.simplesigning.v1+json", Digest: digest.FromBytes(content), Size: int64(len(content)), Annotations: a.Annotations}},
	}
	tag := tree.AttachmentTag(subject.Digest)
	if cosign := strings.HasPrefix(a.Kind, "."); cosign {
		tag += a.Kind
	} else {
		m.ArtifactType, m.Subject, m.Config.MediaType = a.Kind, &subject, ocispec.MediaTypeEmptyJSON
	}
	b := encode(m)
	d := ocispec.Descriptor{MediaType: m.MediaType, Digest: digest.FromBytes(b), Size: int64(len(b)), ArtifactType: m.ArtifactType}
	for _, blob := range [][]byte{config, content} {
		if err := u.upload(repository, digest.FromBytes(blob), blob); err != nil {
			return "", err
		}
	}
	base := "/v2/" + repository + "/manifests/"
	if m.Subject == nil {
		return d.Digest, u.put(base+tag, m.MediaType, b)
	}
	if err := u.put(base+d.Digest.String(), m.MediaType, b); err != nil {
		return "", err
	}
	u.mu.Lock()
	key := repository + "@" + subject.Digest.String()
	u.referrers[key] = append(u.referrers[key], d)
	list := u.referrers[key]
	u.mu.Unlock()
	if u.options.Referrers {
		return d.Digest, nil
	}
	return d.Digest, u.put(base+tag, ocispec.MediaTypeImageIndex, encode(referrersIndex(list)))
}

func referrersIndex(list []ocispec.Descriptor) ocispec.Index {
	return ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: append([]ocispec.Descriptor{}, list...)}
}

// serveReferrers answers with the artifacts of a subject.
func (u *Upstream) serveReferrers(w http.ResponseWriter, what Request) {
	u.mu.Lock()
	b, err := json.Marshal(referrersIndex(u.referrers[what.Repository+"@"+what.Reference]))
	u.mu.Unlock()
	must(err)
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	_, _ = w.Write(b) // the client may have gone
}
