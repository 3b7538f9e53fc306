package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/registry/platform"
)

// A Payload is the content that must be carried to a place that has the first image, so that it
// has the second.
type Payload struct {
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"` // of the blobs: a file has half a kilobyte for each besides
}

// diffContent compares the container images and the start commands of a and b, and
// counts the blobs that only b has: of the platform p, or of all where p is nil.
func (s *Store) diffContent(ctx context.Context, d *Difference, a, b *Image, p *ocispec.Platform) error {
	d.Images = diffImages(a, b)
	d.Commands = diffLists(startCommands(a), startCommands(b))
	var platforms []ocispec.Platform
	if p != nil {
		platforms = []ocispec.Platform{*p}
	}
	var have [2]inventory.Set
	for i, img := range []*Image{a, b} {
		v, err := s.ImageInventory(ctx, img.ID, platforms)
		if err != nil {
			return err
		}
		have[i] = inventory.Set{}
		have[i].Add(v)
	}
	for blob, size := range have[1] {
		if !have[0].Has(blob, size) {
			d.Carry.Blobs++
			d.Carry.Bytes += size
		}
	}
	for i := range d.Images {
		c := &d.Images[i]
		top, other := c.To, have[0]
		if c.Kind == "removed" {
			top, other = c.From, have[1]
		}
		blobs := map[digest.Digest]int64{}
		if err := s.blobsOf(ctx, digest.Digest(top), blobs); err != nil {
			return fmt.Errorf("image %s: %w", c.Name, err)
		}
		for blob, size := range blobs {
			if !other.Has(blob, size) {
				c.Bytes += size
			}
		}
	}
	return nil
}

// blobsOf adds the blobs of the container image d to out: d itself and, as far as
// the store has them, all that it names.
func (s *Store) blobsOf(ctx context.Context, d digest.Digest, out map[digest.Digest]int64) error {
	if err := checkDigest(d); err != nil {
		return err
	}
	b, err := s.ReadBlob(ctx, d, maxManifest)
	if errors.Is(err, ErrNotFound) {
		return nil // a platform that was not mirrored
	}
	if err != nil {
		return err
	}
	var m struct {
		Manifests []ocispec.Descriptor `json:"manifests"`
		Config    *ocispec.Descriptor  `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
	}
	out[d] = int64(len(b))
	if json.Unmarshal(b, &m) != nil {
		return nil // it names nothing; a comparison does not judge
	}
	for _, child := range m.Manifests {
		if _, seen := out[child.Digest]; seen || !platform.IsManifest(child.MediaType) {
			continue
		}
		if err := s.blobsOf(ctx, child.Digest, out); err != nil {
			return err
		}
	}
	if m.Config != nil {
		m.Layers = append(m.Layers, *m.Config)
	}
	for _, l := range m.Layers {
		if checkDigest(l.Digest) == nil && s.hasSized(l) {
			out[l.Digest] = l.Size
		}
	}
	return nil
}

// startCommands returns what a start of img runs, in order.
func startCommands(img *Image) []string {
	c := &img.Config
	out := slices.Concat(c.Cmd.Parent, c.Cmd.Current)
	if c.Launch != nil {
		for _, app := range c.Launch.Apps {
			out = append(out, "LAUNCH "+app)
		}
		out = append(out, c.Launch.Cmds...)
	}
	return out
}

// diffLists returns the lines that b has more than a, and lacks, in their order: a
// longest common subsequence stays.
func diffLists(a, b []string) []Change {
	out := []Change{}
	common := make([][]int, len(a)+1) // length of the longest for a[i:], b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, Change{Kind: "removed", Name: a[i]})
			i++
		default:
			out = append(out, Change{Kind: "added", Name: b[j]})
			j++
		}
	}
	return out
}
