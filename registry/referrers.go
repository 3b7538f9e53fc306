package registry

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/distribution/distribution/v3/registry/api/errcode"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// maxReferrers is the most bytes of an index of referrers that is read.
const maxReferrers = 4 << 20

// serveReferrers answers with the artifacts that belong to a manifest: OCI
// distribution specification 1.1, "Listing Referrers". The mirror keeps their index
// under the tag of the referrers tag schema. Of a repository that is there, a
// manifest without artifacts has an empty list.
func serveReferrers(w http.ResponseWriter, r *http.Request, all []*content, q request) {
	d := digest.Digest(q.reference)
	if !ref.IsSHA256(d) {
		refuse(w, errcode.ErrorCodeDigestInvalid.WithDetail(q.reference))
		return
	}
	ns := r.URL.Query().Get("ns")
	asked := request{name: q.name, kind: manifests, reference: q.reference}
	c, repository, ok := find(all, ns, asked)
	if !ok {
		asked = request{name: q.name, kind: tags}
		if c, repository, ok = find(all, ns, asked); !ok {
			unknown(w, asked)
			return
		}
	}
	idx := c.referrers(r.Context(), repository, d)
	if want := r.URL.Query().Get("artifactType"); want != "" {
		idx.Manifests = slices.DeleteFunc(idx.Manifests, func(m ocispec.Descriptor) bool { return m.ArtifactType != want })
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	b, err := json.Marshal(idx)
	if err != nil {
		refuse(w, errcode.ErrorCodeUnknown)
		return
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // the client may have gone
	}
}

// referrers reads the index under the tag of the referrers tag schema. It is empty
// where there is none, or a damaged one: verify tells of that.
func (c *content) referrers(ctx context.Context, repository string, d digest.Digest) ocispec.Index {
	idx := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	link, err := c.layers.GetContent(ctx, "/"+tree.TagPath(repository, tree.AttachmentTag(d)))
	if err != nil {
		return idx
	}
	at := digest.Digest(strings.TrimSpace(string(link)))
	if !ref.IsSHA256(at) {
		return idx
	}
	blob := "/" + tree.BlobPath(at)
	if fi, err := c.layers.Stat(ctx, blob); err != nil || fi.Size() > maxReferrers {
		return idx
	}
	b, err := c.layers.GetContent(ctx, blob)
	if err != nil || digest.FromBytes(b) != at {
		return idx
	}
	var found ocispec.Index
	if json.Unmarshal(b, &found) == nil && found.Manifests != nil {
		idx.Manifests = found.Manifests
	}
	return idx
}
