package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

// A Summary is a line about an image, for one platform.
type Summary struct {
	Names      []string           // its normalised references, sorted; empty when it has none
	Descriptor ocispec.Descriptor // the target of the names: a manifest, or an image index
	Type       string             // image.TypeKubeInstaller or image.TypeAppInstaller
	Platform   ocispec.Platform
	Built      time.Time // as Image.Built
	Added      time.Time // as Image.Added
	Size       int64     // bytes of all blobs of this platform, each counted once
	Own        int64     // bytes of those blobs that no other image of the store has
}

// Summary returns the line about i, without Own.
func (i *Image) Summary() Summary {
	return Summary{
		Names: i.Names, Descriptor: i.Descriptor, Type: i.Config.Type, Platform: i.Config.Platform,
		Built: i.Built, Added: i.Added, Size: i.Size,
	}
}

// Summaries returns a line for each image, in the order of Images and with its
// errors. It reads the index, and of the images only those that it has not read
// before: the rest is in a cache, which counts for nothing else.
func (s *Store) Summaries(ctx context.Context) ([]Summary, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	cache := s.readSummaries()
	here := map[digest.Digest]bool{}
	var rows []summaryRow
	var errs []error
	changed := false
	for _, l := range list {
		id := l.Descriptor.Digest
		here[id] = true
		c, hit := cache.Images[id]
		if !hit || !s.isCurrent(cache, c) {
			changed = true
			delete(cache.Images, id)
			if c, err = s.summarise(ctx, cache, l.Descriptor); err == nil {
				cache.Images[id] = c
			} else {
				errs = append(errs, fmt.Errorf("image %s: %w", l.name(), damaged(err)))
			}
		}
		rows = append(rows, summaryRow{l, c})
	}
	out := cache.summaries(rows)
	if len(cache.Images) > len(here) {
		cache, changed = cache.only(here), true
	}
	if changed {
		if err := s.writeSummaries(ctx, cache); err != nil {
			s.o.Logger.Debug("the cache of summaries is not written", "error", err)
		}
	}
	return out, errors.Join(errs...)
}

// A summaryRow is an image and its content in a cache.
type summaryRow struct {
	Listed
	content cachedImage
}

// summaries returns the lines of rows.
func (k *summaryCache) summaries(rows []summaryRow) []Summary {
	const several = -1
	owner := make([]int, len(k.Blobs)) // the number of the row, from 1
	for i, r := range rows {
		for _, p := range r.content {
			for _, b := range p.Blobs {
				if owner[b] == 0 {
					owner[b] = i + 1
				} else if owner[b] != i+1 {
					owner[b] = several
				}
			}
		}
	}
	var out []Summary
	for i, r := range rows {
		for _, p := range r.content {
			if !p.present() {
				continue
			}
			line := Summary{Names: r.Names, Descriptor: r.Descriptor, Type: p.Type, Platform: p.Platform, Built: r.Built, Added: r.Added}
			if !p.Created.IsZero() {
				line.Built = p.Created
			}
			for _, b := range p.Blobs {
				line.Size += k.Blobs[b].Size
				if owner[b] == i+1 {
					line.Own += k.Blobs[b].Size
				}
			}
			out = append(out, line)
		}
	}
	return out
}

// isCurrent reports whether an image still has the platforms that it had when
// the cache was written, with their manifests and configs.
func (s *Store) isCurrent(k *summaryCache, c cachedImage) bool {
	for _, p := range c {
		if !p.present() {
			if _, err := os.Lstat(s.BlobPath(p.Manifest)); err == nil {
				return false // it came since
			}
			continue
		}
		for _, b := range p.Blobs[:min(2, len(p.Blobs))] {
			if !s.hasSized(ocispec.Descriptor{Digest: k.Blobs[b].digest(), Size: k.Blobs[b].Size}) {
				return false
			}
		}
	}
	return true
}

// summarise reads an image for the cache k. Of a damaged one it returns the
// platforms before the damage with the error.
func (s *Store) summarise(ctx context.Context, k *summaryCache, desc ocispec.Descriptor) (cachedImage, error) {
	manifests, sub, err := s.manifests(ctx, desc)
	if err != nil {
		return nil, err
	}
	var out cachedImage
	here := map[digest.Digest]bool{}
	for _, m := range manifests {
		here[m.Digest] = true
		p, err := s.summarisePlatform(ctx, k, m)
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	if sub != nil {
		for _, m := range sub.Manifests {
			if !here[m.Digest] {
				out = append(out, cachedPlatform{Manifest: m.Digest})
			}
		}
	}
	return out, nil
}

func (s *Store) summarisePlatform(ctx context.Context, k *summaryCache, desc ocispec.Descriptor) (cachedPlatform, error) {
	p := cachedPlatform{Manifest: desc.Digest}
	var m ocispec.Manifest
	if err := s.readJSON(ctx, desc, maxManifest, &m); err != nil {
		return p, fmt.Errorf("manifest: %w", err)
	}
	blobs := append([]ocispec.Descriptor{desc, m.Config}, m.Layers...)
	if m.Config.MediaType == image.MediaTypeConfig {
		var c struct { // the rest of it is a hundred times longer
			Created  *time.Time       `json:"created"`
			Type     string           `json:"type"`
			Platform ocispec.Platform `json:"platform"`
		}
		if err := s.readJSON(ctx, m.Config, maxConfig, &c); err != nil {
			return p, fmt.Errorf("config: %w", err)
		}
		p.Type, p.Platform = c.Type, c.Platform
		if c.Created != nil {
			p.Created = *c.Created
		}
	} else {
		img, err := s.readImage(ctx, desc)
		if err != nil {
			return p, err
		}
		p.Type, p.Platform = img.Config.Type, img.Config.Platform
		if img.Config.Created != nil {
			p.Created = *img.Config.Created
		}
		blobs = img.Descriptors()
	}
	seen := map[digest.Digest]bool{}
	for _, d := range blobs {
		if err := checkDigest(d.Digest); err != nil {
			return p, fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
		if !seen[d.Digest] {
			seen[d.Digest] = true
			p.Blobs = append(p.Blobs, k.blob(d))
		}
	}
	return p, nil
}
