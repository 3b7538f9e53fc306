package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

const (
	// A cache in a registry is an OCI artifact: its config tells for each key
	// the step that it stands for, its layers are the layers of the steps.
	cacheArtifactType = "application/vnd.sealer.cache.v1"
	cacheConfigType   = "application/vnd.sealer.cache.config.v1+json"
	maxCacheConfig    = 16 << 20
	cacheRest         = 4 << 10 // bytes of a cache's manifest and config that are not its steps
)

// A sharedCache is a cache in a registry.
type sharedCache struct {
	from  ref.Reference
	Steps map[string]stepRecord `json:"steps"`
}

// readShared reads the caches of --cache-from. One that is not there, as before
// the first build, is a warning.
func (b *builder) readShared(ctx context.Context) {
	for _, r := range b.o.CacheFrom {
		c, err := b.readCache(ctx, r)
		if err != nil {
			b.warn(fmt.Sprintf("cache %s is not used: %v", r.Familiar(), err))
			continue
		}
		b.shared = append(b.shared, c)
	}
}

func (b *builder) readCache(ctx context.Context, r ref.Reference) (*sharedCache, error) {
	desc, content, err := b.c.Manifest(ctx, r)
	if err == nil {
		err = b.c.Allow(ctx, r, desc.Digest)
	}
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return nil, err
	}
	if m.ArtifactType != cacheArtifactType || m.Config.MediaType != cacheConfigType || m.Config.Size > maxCacheConfig {
		return nil, errors.New("it is no build cache")
	}
	if err := b.s.PutBlob(ctx, m.Config, func(w io.Writer) error { return b.c.Blob(ctx, r, m.Config, w) }); err != nil {
		return nil, err
	}
	config, err := b.s.ReadBlob(ctx, m.Config.Digest, maxCacheConfig)
	if err != nil {
		return nil, err
	}
	c := &sharedCache{from: r}
	return c, json.Unmarshal(config, c)
}

// lookupShared brings a step from the registries' caches.
func (b *builder) lookupShared(ctx context.Context, key string) (stepRecord, bool) {
	for _, c := range b.shared {
		r, ok := c.Steps[key]
		if !ok {
			continue
		}
		if r.Empty || b.hasLayer(ctx, r.Layer) {
			return r, true
		}
		if err := b.fetchLayer(ctx, c.from, r.Layer); err != nil {
			b.warn(fmt.Sprintf("cache %s: %v", c.from.Familiar(), err))
			continue
		}
		return r, true
	}
	return stepRecord{}, false
}

// fetchLayer fetches the blob of a cached layer and unpacks it. The cache is
// not trusted: a layer whose content has another ID is refused.
func (b *builder) fetchLayer(ctx context.Context, from ref.Reference, want image.Layer) error {
	if len(want.Descriptors) != 1 {
		return errors.New("a step has no layer")
	}
	desc := want.Descriptors[0]
	if err := b.s.PutBlob(ctx, desc, func(w io.Writer) error { return b.c.Blob(ctx, from, desc, w) }); err != nil {
		return err
	}
	f, err := b.s.OpenBlob(ctx, desc.Digest)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := layer.Decompress(f)
	if err != nil {
		return err
	}
	defer r.Close()
	o := store.LayerOptions{Compression: compressionOf(desc.MediaType)}
	got, err := b.s.WriteLayer(ctx, o, func(w io.Writer) error {
		_, err := io.Copy(w, r) //nolint:gosec // the store bounds what it unpacks
		return err
	})
	if err != nil {
		return err
	}
	if got.ID != want.ID {
		return fmt.Errorf("its layer %s is %s", want.ID, got.ID)
	}
	return nil
}

// compressionOf returns the compression that a layer's media type names.
func compressionOf(mediaType string) string {
	switch {
	case strings.HasSuffix(mediaType, "+zstd"):
		return layer.CompressionZstd
	case strings.HasSuffix(mediaType, "+gzip"):
		return layer.CompressionGzip
	}
	return layer.CompressionNone
}

// writeShared pushes the steps of this build to the caches of --cache-to.
func (b *builder) writeShared(ctx context.Context) error {
	if len(b.o.CacheTo) == 0 {
		return nil
	}
	steps, err := fitting(b.used, remote.MaxManifest-cacheRest, maxCacheConfig-cacheRest)
	if err != nil {
		return err
	}
	if left := len(b.used) - len(steps); left > 0 {
		b.warn(fmt.Sprintf("the cache in the registry lacks %d of %d steps: a registry takes no longer list of layers, and the next build runs them again", left, len(b.used)))
	}
	config, err := json.Marshal(sharedCache{Steps: steps})
	if err != nil {
		return err
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: cacheArtifactType}
	if m.Config, err = b.put(ctx, cacheConfigType, config); err != nil {
		return err
	}
	seen := map[digest.Digest]bool{}
	m.Layers = []ocispec.Descriptor{}
	for _, key := range slices.Sorted(maps.Keys(steps)) {
		for _, d := range steps[key].Layer.Descriptors {
			if !seen[d.Digest] {
				seen[d.Digest] = true
				m.Layers = append(m.Layers, d)
			}
		}
	}
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	desc, err := b.put(ctx, m.MediaType, content)
	if err != nil {
		return err
	}
	var errs []error
	for _, to := range b.o.CacheTo {
		b.step("push cache " + to.Familiar())
		if err := b.c.Push(ctx, b.s, desc, to, remote.PushOptions{Progress: b.transfer}); err != nil {
			errs = append(errs, fmt.Errorf("push cache %s: %w", to.Familiar(), err))
		}
	}
	return errors.Join(errs...)
}

// fitting chooses the steps that a shared cache has room for, in the order of their
// keys. manifest and config are bytes: room for layers, and for records.
func fitting(used map[string]stepRecord, manifest, config int) (map[string]stepRecord, error) {
	steps := map[string]stepRecord{}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		layers, err := json.Marshal(used[key].Layer.Descriptors)
		if err != nil {
			return nil, err
		}
		record, err := json.Marshal(map[string]stepRecord{key: used[key]})
		if err != nil {
			return nil, err
		}
		if len(layers) > manifest || len(record) > config {
			continue
		}
		manifest, config = manifest-len(layers), config-len(record)
		steps[key] = used[key]
	}
	return steps, nil
}

func (b *builder) put(ctx context.Context, mediaType string, content []byte) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	return d, b.s.PutBlob(ctx, d, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(content))
		return err
	})
}

// use notes a step for --cache-to.
func (b *builder) use(key string, r stepRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[string]stepRecord{}
	}
	b.used[key] = r
}
