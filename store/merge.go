package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	// Images are names or IDs, at least one; a later one's files lie over an
	// earlier one's.
	Images []string
	// Platforms of the result; empty: all for which the store has every image.
	Platforms []ocispec.Platform
	// Names of the result, at least one.
	Names []ref.Reference
	// Version of sealer, for the config.
	Version string
}

// Merge makes one image of several: the layers one after the other, each once,
// the start commands likewise, the maps united. A contradiction is an error
// that wraps ErrInvalid: one tag of the private registry with two contents, two
// applications of one name, two private registries.
func (s *Store) Merge(ctx context.Context, o MergeOptions) (ocispec.Descriptor, error) {
	if err := s.Hold(ctx); err != nil {
		return ocispec.Descriptor{}, err
	}
	platforms, err := s.commonPlatforms(ctx, o)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("merge: %w", err)
	}
	var manifests []ocispec.Descriptor
	for _, p := range platforms {
		m := merger{config: image.Config{SealerVersion: o.Version, Platform: p}, tags: map[string]tagged{}}
		for _, n := range o.Images {
			img, err := s.Image(ctx, n, &p)
			if err != nil {
				return ocispec.Descriptor{}, fmt.Errorf("merge: %w", err)
			}
			if err := m.add(n, img); err != nil {
				return ocispec.Descriptor{}, err
			}
		}
		d, err := s.WriteImage(ctx, m.config, m.layers, nil)
		if err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("merge: %w", err)
		}
		manifests = append(manifests, d)
	}
	desc, err := s.WriteTop(ctx, manifests, nil)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("merge: %w", err)
	}
	return desc, s.CommitBuilt(ctx, o.Names, desc)
}

// commonPlatforms returns the platforms asked for, or those that all images
// have, in the order of the first.
func (s *Store) commonPlatforms(ctx context.Context, o MergeOptions) ([]ocispec.Platform, error) {
	if len(o.Images) == 0 {
		return nil, errors.New("no images")
	}
	if len(o.Platforms) > 0 {
		return o.Platforms, nil
	}
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	var common []ocispec.Platform
	for i, n := range o.Images {
		entry, err := find(idx, n)
		if err != nil {
			return nil, err
		}
		manifests, _, err := s.manifests(ctx, entry)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", n, err)
		}
		var have []ocispec.Platform
		for _, m := range manifests {
			img, err := s.readImage(ctx, m)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", n, err)
			}
			have = append(have, platformOf(m, img.Config))
		}
		if i == 0 {
			common = have
			continue
		}
		common = slices.DeleteFunc(common, func(p ocispec.Platform) bool {
			return !slices.ContainsFunc(have, func(h ocispec.Platform) bool { return platform.Match(p, h) })
		})
	}
	if len(common) == 0 {
		return nil, fmt.Errorf("%w: the images have no platform in common", ErrInvalid)
	}
	return common, nil
}

// tagged is a tag that a merged image serves, and the image it is from.
type tagged struct {
	digest digest.Digest
	image  string
}

// A merger builds the config and the layers of a merged image.
type merger struct {
	config image.Config
	layers []image.Layer
	tags   map[string]tagged
	cmds   []string // of all images so far
}

func (m *merger) add(name string, img *Image) error {
	c := img.Config
	out := &m.config
	if first := out.PrivateRegistry.Name == ""; first {
		out.PrivateRegistry = c.PrivateRegistry
	} else if out.PrivateRegistry != c.PrivateRegistry {
		return fmt.Errorf("merge %s: %w: its private registry is %s with the naming %s, that of the images before it %s with %s",
			name, ErrInvalid, c.PrivateRegistry.Name, c.PrivateRegistry.Naming, out.PrivateRegistry.Name, out.PrivateRegistry.Naming)
	}
	if out.Type == "" || c.Type == image.TypeKubeInstaller {
		out.Type = c.Type
	}
	m.stack(img)
	m.commands(c.Cmd)
	out.Args.Parent = union(out.Args.Parent, out.Args.Current)
	out.Args.Parent = union(out.Args.Parent, c.Args.Parent)
	out.Args.Current = c.Args.Current
	out.Env = union(out.Env, c.Env)
	out.Labels = union(out.Labels, c.Labels)
	if c.Maintainer != "" {
		out.Maintainer = c.Maintainer
	}
	if c.Launch != nil {
		if out.Launch == nil {
			out.Launch = &image.Launch{}
		}
		out.Launch = &image.Launch{Apps: appendNew(out.Launch.Apps, c.Launch.Apps), Cmds: appendNew(out.Launch.Cmds, c.Launch.Cmds)}
	}
	m.images(c.Images)
	for _, g := range c.Gaps {
		if !slices.Contains(out.Gaps, g) {
			out.Gaps = append(out.Gaps, g)
		}
	}
	return errors.Join(m.applications(name, c.Applications), m.served(name, img.Documents))
}

// stack appends img's layers after the common base. Of a layer that then occurs
// twice the highest is kept.
func (m *merger) stack(img *Image) {
	out := &m.config
	shared := 0
	for shared < min(len(img.Layers), len(m.layers)) && img.Layers[shared].ID == m.layers[shared].ID {
		shared++
	}
	m.layers = append(m.layers, img.Layers[shared:]...)
	out.Layers = append(out.Layers, img.Config.Layers[shared:]...)
	for i := len(m.layers) - 2; i >= 0; i-- {
		if id := m.layers[i].ID; slices.ContainsFunc(m.layers[i+1:], func(l image.Layer) bool { return l.ID == id }) {
			m.layers, out.Layers = slices.Delete(m.layers, i, i+1), slices.Delete(out.Layers, i, i+1)
		}
	}
}

// commands appends start commands: those that two images inherited from one base
// run once. The last image's own become current.
func (m *merger) commands(c image.Commands) {
	all := slices.Concat(c.Parent, c.Current)
	shared := 0
	for shared < len(all) && shared < len(m.cmds) && all[shared] == m.cmds[shared] {
		shared++
	}
	own := all[shared:]
	m.config.Cmd = image.Commands{Parent: slices.Clone(m.cmds), Current: own}
	if len(own) > len(c.Current) { // part of it is its base's
		cut := len(own) - len(c.Current)
		m.config.Cmd.Parent = append(m.config.Cmd.Parent, own[:cut]...)
		m.config.Cmd.Current = own[cut:]
	}
	m.cmds = append(m.cmds, own...)
}

func (m *merger) applications(name string, list []image.Application) error {
	var errs []error
	for _, a := range list {
		i := slices.IndexFunc(m.config.Applications, func(b image.Application) bool { return a.Name == b.Name })
		switch {
		case i < 0:
			m.config.Applications = append(m.config.Applications, a)
		case !reflect.DeepEqual(a, m.config.Applications[i]):
			errs = append(errs, fmt.Errorf("merge %s: %w: its application %s is another than that of an image before it: give one of them another name", name, ErrInvalid, a.Name))
		}
	}
	return errors.Join(errs...)
}

// served refuses a tag that means two contents: which one the cluster would
// get differs from the one that both images were built for.
func (m *merger) served(name string, docs []*tree.Document) error {
	own := map[string]digest.Digest{} // a higher layer hides a lower one's
	var order []string
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, t := range r.Tags {
				k := r.Name + ":" + t.Name
				if _, ok := own[k]; !ok {
					order = append(order, k)
				}
				own[k] = t.Digest
			}
		}
	}
	var errs []error
	for _, k := range order {
		if have, ok := m.tags[k]; ok && have.digest != own[k] {
			errs = append(errs, fmt.Errorf("merge %s: %w: %s is %s here and %s in %s", name, ErrInvalid, k, own[k], have.digest, have.image))
		}
		m.tags[k] = tagged{own[k], name}
	}
	return errors.Join(errs...)
}

// images unites the lists; one that another image mirrored is not missing.
func (m *merger) images(list []image.MirroredImage) {
	for _, img := range list {
		i := slices.IndexFunc(m.config.Images, func(b image.MirroredImage) bool { return b.Reference == img.Reference })
		switch {
		case i < 0:
			m.config.Images = append(m.config.Images, img)
			continue
		case m.config.Images[i].Digest == "" && img.Digest != "":
			found := m.config.Images[i].Found
			m.config.Images[i] = img
			img.Found = found
		}
		have := slices.Clone(m.config.Images[i].Found)
		for _, f := range img.Found {
			if !slices.Contains(have, f) {
				have = append(have, f)
			}
		}
		m.config.Images[i].Found = have
	}
}

func union(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

func appendNew(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
