package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
)

// A RemoteTag is a tag of a repository, as its registry has it.
type RemoteTag struct {
	Tag       string
	Digest    digest.Digest
	Cluster   bool               // it is a ClusterImage; not known of those of sealer 0.9
	Platforms []ocispec.Platform // that are said
	Size      int64              // bytes of its manifests' blobs; of an index, of the platforms that were read: 0
	Created   time.Time          // as it says itself; zero when it does not
	Err       error              // why it cannot be read
}

// Search returns the tags of r's repository, or the tag of r alone where only is
// set, sorted, and the number of tags that hold signatures and other attachments,
// which are left out. A tag that cannot be read has its Err.
func Search(ctx context.Context, c *remote.Client, r ref.Reference, only bool) (tags []RemoteTag, attachments int, err error) {
	names := []string{r.Tag}
	if !only {
		if names, err = c.Tags(ctx, r); err != nil {
			return nil, 0, err
		}
	}
	for _, n := range names {
		if tree.IsAttachmentTag(n) {
			attachments++
			continue
		}
		tags = append(tags, RemoteTag{Tag: n})
	}
	var g errgroup.Group
	g.SetLimit(64) // the Client limits the requests in flight
	for i := range tags {
		g.Go(func() error {
			t := &tags[i]
			t.Err = t.read(ctx, c, ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: t.Tag})
			return nil
		})
	}
	_ = g.Wait() // failures are kept by tag
	return tags, attachments, ctx.Err()
}

// read fills t from the manifest of at and, of an image for one platform, its
// config.
func (t *RemoteTag) read(ctx context.Context, c *remote.Client, at ref.Reference) error {
	desc, b, err := c.Manifest(ctx, at)
	if err != nil {
		return err
	}
	t.Digest = desc.Digest
	var m struct {
		ocispec.Manifest
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	t.Created = created(m.Annotations[ocispec.AnnotationCreated])
	t.Cluster = m.ArtifactType == image.ArtifactType
	if platform.IsIndex(desc.MediaType) {
		return t.readIndex(ctx, c, at, m.Manifests)
	}
	for _, l := range slices.Concat(m.Layers, []ocispec.Descriptor{m.Config}) {
		t.Size += l.Size
	}
	if m.Config.Size > remote.MaxManifest || !t.Cluster && !platform.IsConfig(m.Config.MediaType) {
		return nil
	}
	return t.readConfig(ctx, c, at, m.Config)
}

// readIndex fills t from the manifests of an image index: its platforms and, where
// the index does not say it, the age of the first of them.
func (t *RemoteTag) readIndex(ctx context.Context, c *remote.Client, at ref.Reference, manifests []ocispec.Descriptor) error {
	first := -1
	for i, d := range manifests {
		if d.Platform == nil || d.Platform.OS == "unknown" {
			continue
		}
		t.Cluster = t.Cluster || d.ArtifactType == image.ArtifactType
		t.Platforms = append(t.Platforms, platform.Normalize(*d.Platform))
		if first < 0 {
			first = i
		}
	}
	if first < 0 || !t.Created.IsZero() {
		return nil
	}
	at.Tag, at.Digest = "", manifests[first].Digest
	var one RemoteTag
	err := one.read(ctx, c, at)
	t.Cluster, t.Created = t.Cluster || one.Cluster, one.Created
	return err
}

// readConfig fills t from the config of an image for one platform.
func (t *RemoteTag) readConfig(ctx context.Context, c *remote.Client, at ref.Reference, desc ocispec.Descriptor) error {
	var config bytes.Buffer
	if err := c.Blob(ctx, at, desc, &config); err != nil {
		return err
	}
	var said struct {
		Created  *time.Time        `json:"created"`
		Platform *ocispec.Platform `json:"platform"`
	}
	if err := json.Unmarshal(config.Bytes(), &said); err != nil {
		return err
	}
	if said.Created != nil && t.Created.IsZero() && said.Created.Unix() > 0 {
		t.Created = *said.Created
	}
	if said.Platform != nil {
		t.Platforms = []ocispec.Platform{platform.Normalize(*said.Platform)}
	} else if p, ok, err := platform.OfConfig(config.Bytes()); err == nil && ok {
		t.Platforms = []ocispec.Platform{p}
	}
	return nil
}

func created(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}
