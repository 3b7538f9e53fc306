package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/image/sbom"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
)

// Blobs are the blobs of an image store. ReadBlob checks the digest of the bytes
// that it returns, and fails for a blob that is longer than limit bytes.
type Blobs = sbom.Blobs

// A Part is one platform of a ClusterImage, as a store has it.
type Part struct {
	Platform  ocispec.Platform
	Manifest  ocispec.Descriptor
	Config    *image.Config
	Layers    []image.Layer // in stacking order, one for each of Config.Layers
	Documents []*tree.Document
	Size      int64 // of all its blobs, each counted once
	// Missing are the references that the registry layers do not hold whole.
	Missing []Missing
}

// maxManifest bounds the manifests that are read, in bytes.
const maxManifest = 8 << 20

// OfImage describes the image name, of which parts are the platforms; d is the
// target of the name. blobs are read for the sizes of the container images and for
// SBOMs; those that cannot be read are counted as absent.
func OfImage(ctx context.Context, name string, d digest.Digest, parts []Part, blobs Blobs) (*Image, error) {
	if len(parts) == 0 {
		return nil, errors.New("report: the image has no platform")
	}
	c := parts[0].Config
	g := gatherer{
		blobs: blobs, images: map[string]*collected{}, sizes: map[digest.Digest]int64{},
		image: &Image{Name: name, Digest: d, Type: c.Type, SealerVersion: c.SealerVersion, Maintainer: c.Maintainer, Registry: c.PrivateRegistry, Apps: c.Applications},
	}
	if c.Created != nil {
		g.image.Created = *c.Created
	}
	for _, p := range parts {
		if err := g.part(ctx, p); err != nil {
			return nil, err
		}
	}
	g.commands(c)
	g.bytes(parts)
	if err := g.software(ctx, parts); err != nil {
		return nil, err
	}
	for _, ref := range slices.Sorted(maps.Keys(g.images)) {
		m := g.images[ref]
		if m.Why != "" {
			g.image.Listed = append(g.image.Listed, m.Mirrored)
		} else {
			g.image.Mirrored = append(g.image.Mirrored, m.Mirrored)
		}
	}
	return g.image, nil
}

// A gatherer fills an Image.
type gatherer struct {
	blobs  Blobs
	image  *Image
	images map[string]*collected   // by reference
	sizes  map[digest.Digest]int64 // of the blobs inside
}

type collected struct {
	Mirrored
	digests map[digest.Digest]int64 // its blobs
}

// part adds one platform.
func (g *gatherer) part(ctx context.Context, p Part) error {
	name := platform.String(p.Platform)
	out := Platform{Name: name, Digest: p.Manifest.Digest, Size: p.Size, Layers: len(p.Layers)}
	for _, doc := range p.Documents {
		for _, b := range doc.Blobs {
			g.sizes[b.Digest] = b.Size
		}
	}
	lacks := map[string]string{}
	for _, m := range p.Missing {
		lacks[m.Reference] = m.Why
	}
	for _, m := range p.Config.Images {
		if err := ctx.Err(); err != nil {
			return err
		}
		ref := m.Reference.String()
		why, lacking := lacks[ref]
		delete(lacks, ref)
		if m.Lacks() || lacking {
			g.image.Missing = append(g.image.Missing, Missing{Platform: name, Reference: ref, Why: cmp.Or(m.Missing, why), Found: m.Found})
			continue
		}
		if m.Missing == "" {
			out.Images++
		}
		g.mirrored(ctx, m, name)
	}
	for _, m := range p.Missing {
		if _, left := lacks[m.Reference]; left {
			g.image.Missing = append(g.image.Missing, Missing{Platform: name, Reference: m.Reference, Why: m.Why})
		}
	}
	for _, gap := range p.Config.Gaps {
		g.gap(gap, name)
	}
	for i, l := range p.Layers {
		g.layer(l, p.Config.Layers[i], name)
	}
	g.image.Platforms = append(g.image.Platforms, out)
	return nil
}

func (g *gatherer) gap(gap image.Gap, platform string) {
	for i := range g.image.Gaps {
		if g.image.Gaps[i].Gap == gap {
			g.image.Gaps[i].Platforms = append(g.image.Gaps[i].Platforms, platform)
			return
		}
	}
	g.image.Gaps = append(g.image.Gaps, Gap{[]string{platform}, gap})
}

func (g *gatherer) layer(l image.Layer, c image.ConfigLayer, platform string) {
	for i := range g.image.Layers {
		if g.image.Layers[i].ID == l.ID {
			g.image.Layers[i].Platforms = append(g.image.Layers[i].Platforms, platform)
			return
		}
	}
	out := Layer{Platforms: []string{platform}, ID: l.ID, Type: c.Type, Value: c.Value, Files: c.Size, Registry: l.IsRegistry()}
	for _, d := range l.Descriptors {
		out.Size += d.Size
	}
	g.image.Layers = append(g.image.Layers, out)
}

// mirrored adds a container image as one platform has it.
func (g *gatherer) mirrored(ctx context.Context, m image.MirroredImage, platform string) {
	ref := m.Reference.String()
	c := g.images[ref]
	if c == nil {
		c = &collected{digests: map[digest.Digest]int64{}}
		c.Reference, c.Digest, c.Found = ref, m.Digest, slices.Clone(m.Found)
		c.Why = strings.TrimPrefix(m.Missing, image.NotMirrored)
		c.Registry = m.Reference.Registry
		if m.Source.IsReference() {
			c.Source, c.Registry = m.Source.String(), m.Source.Registry
		}
		g.images[ref] = c
	} else {
		for _, p := range m.Found {
			if !slices.Contains(c.Found, p) {
				c.Found = append(c.Found, p)
			}
		}
		if m.Missing == "" {
			c.Why = ""
		}
	}
	if m.Missing != "" {
		return
	}
	for _, p := range append(slices.Clone(m.Platforms), platform) {
		if len(m.Platforms) > 0 && p == platform {
			continue
		}
		if !slices.Contains(c.Platforms, p) {
			c.Platforms = append(c.Platforms, p)
		}
	}
	before := len(c.digests)
	g.walk(ctx, m.Digest, c.digests, 0)
	if len(c.digests) == before && before == 0 {
		c.digests[m.Digest] = m.Size // its manifest is in no registry layer, as in images of sealer 0.9
	}
}

// walk adds the blobs that the manifest or index d leads to, as far as they are
// inside.
func (g *gatherer) walk(ctx context.Context, d digest.Digest, to map[digest.Digest]int64, depth int) {
	size, inside := g.sizes[d]
	if _, seen := to[d]; seen || !inside || depth > 2 {
		return
	}
	to[d] = size
	b, err := g.blobs.ReadBlob(ctx, d, maxManifest)
	if err != nil {
		return
	}
	var m struct {
		Manifests []ocispec.Descriptor `json:"manifests"`
		Config    *ocispec.Descriptor  `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
	}
	if json.Unmarshal(b, &m) != nil {
		return
	}
	for _, child := range m.Manifests {
		g.walk(ctx, child.Digest, to, depth+1)
	}
	if m.Config != nil {
		m.Layers = append(m.Layers, *m.Config)
	}
	for _, l := range m.Layers {
		if size, inside := g.sizes[l.Digest]; inside {
			to[l.Digest] = size
		}
	}
}

// commands adds what a start runs, in order.
func (g *gatherer) commands(c *image.Config) {
	add := func(from string, list []string) {
		for _, text := range list {
			g.image.Commands = append(g.image.Commands, Command{from, text})
		}
	}
	add("base", c.Cmd.Parent)
	add("image", c.Cmd.Current)
	if c.Launch != nil {
		for _, app := range c.Launch.Apps {
			add("launch", []string{"LAUNCH " + app})
		}
		add("launch", c.Launch.Cmds)
	}
}

// bytes adds up the blobs: of each image its own and all, of each registry, and
// those that several images share.
func (g *gatherer) bytes(parts []Part) {
	owners := map[digest.Digest][]string{}
	blobs := map[digest.Digest]int64{}
	for _, ref := range slices.Sorted(maps.Keys(g.images)) {
		for d, size := range g.images[ref].digests {
			owners[d] = append(owners[d], ref)
			blobs[d] = size
		}
	}
	registries := map[string]*Source{}
	for _, m := range g.images {
		if m.Why == "" {
			r := registries[m.Registry]
			if r == nil {
				r = &Source{Name: m.Registry}
				registries[m.Registry] = r
			}
			r.Images++
		}
	}
	shared := map[string]*Shared{}
	for d, refs := range owners {
		size := blobs[d]
		from := map[string]bool{}
		for _, ref := range refs {
			m := g.images[ref]
			m.Size += size
			if len(refs) == 1 {
				m.Own += size
			}
			from[m.Registry] = true
		}
		for name := range from {
			registries[name].Size += size
			if len(from) == 1 {
				registries[name].Own += size
			}
		}
		if len(refs) > 1 {
			key := strings.Join(refs, "\n")
			if shared[key] == nil {
				shared[key] = &Shared{Images: refs}
			}
			shared[key].Size += size
		}
	}
	for _, s := range shared {
		g.image.Shared = append(g.image.Shared, *s)
	}
	slices.SortFunc(g.image.Shared, func(a, b Shared) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), slices.Compare(a.Images, b.Images))
	})
	for _, r := range registries {
		g.image.Registries = append(g.image.Registries, *r)
	}
	slices.SortFunc(g.image.Registries, func(a, b Source) int { return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name)) })
	g.image.Size = wholeSize(parts)
}

// wholeSize counts each blob of all platforms once.
func wholeSize(parts []Part) (n int64) {
	seen := map[digest.Digest]bool{}
	add := func(d ocispec.Descriptor) {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			n += d.Size
		}
	}
	for _, p := range parts {
		add(p.Manifest)
		for _, l := range p.Layers {
			for _, d := range l.Descriptors {
				add(d)
			}
		}
	}
	return n
}

// Complete reports whether nothing is missing and no gap is open.
func (i *Image) Complete() bool { return len(i.Missing) == 0 && i.Open() == 0 }

// Open counts the gaps that keep the image from being complete.
func (i *Image) Open() (n int) {
	for _, g := range i.Gaps {
		if g.Blocks() {
			n++
		}
	}
	return n
}

// Verdict is one line for people: whether the image is complete.
func (i *Image) Verdict() string {
	if i.Complete() {
		return fmt.Sprintf("complete: %s inside, nothing missing, no gap open", count(len(i.Mirrored), "container image", "container images"))
	}
	var parts []string
	if n := len(i.Missing); n > 0 {
		parts = append(parts, count(n, "container image is missing", "container images are missing"))
	}
	if n := i.Open(); n > 0 {
		parts = append(parts, count(n, "gap is open", "gaps are open"))
	}
	return "incomplete: " + strings.Join(parts, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// zeroless returns the time, or "" for none.
func zeroless(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
