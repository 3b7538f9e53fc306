package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// base finds the image of FROM for the target's platform, in the store or in
// its registry. It is nil for scratch.
func (t *target) findBase(ctx context.Context, from *kubefile.From) (*store.Image, error) {
	p := t.platform
	if from.Platform != "" {
		var err error
		if p, err = platform.Parse(from.Platform); err != nil {
			return nil, t.fault(from, err.Error(), "", err)
		}
	}
	if from.Image == kubefile.Scratch {
		return nil, nil
	}
	name, err := ref.Parse(from.Image)
	if err != nil {
		// It may still be the ID of an image without a name.
		if im, idErr := t.b.s.Image(ctx, from.Image, &p); idErr == nil {
			return im, nil
		}
		return nil, t.fault(from, err.Error(), "FROM IMAGE or FROM scratch", err)
	}
	pinned, err := t.b.pinBase(name)
	if err != nil {
		return nil, t.fault(from, err.Error(), "run sealer build --lock", err)
	}
	im, err := t.b.base(ctx, from.Image, pinned, p)
	if err != nil {
		return nil, t.fault(from, err.Error(), baseFix(err, from.Image), err)
	}
	t.b.bases[name.String()] = im.Descriptor.Digest
	return im, nil
}

// errUnasked says that a base was not pulled for a build that fails anyway.
var errUnasked = errors.New("it was not asked for")

var errNotHere = errors.New("it is not in the store, and it may not be pulled")

func baseFix(err error, image string) string {
	if errors.Is(err, errNotHere) {
		return "build or load it first, or allow the pull"
	}
	return "build it first with sealer build -t " + image + ", or see whether its registry can be reached"
}

// base returns the image called written, which may be an ID, or name when that
// says a digest, pulling it where the options say so.
func (b *builder) base(ctx context.Context, written string, name ref.Reference, p ocispec.Platform) (*store.Image, error) {
	if b.o.Pull != PullAlways || b.pulled[name] || b.failing {
		if name.Digest != "" {
			written = name.Digest.Encoded() // whatever its name is now
		}
		im, err := b.s.Image(ctx, written, &p)
		if !errors.Is(err, store.ErrNotFound) {
			return im, err
		}
	}
	switch {
	case b.o.Pull == PullNever || b.o.Offline:
		return nil, fmt.Errorf("%s for %s: %w", name.Familiar(), platform.String(p), errNotHere)
	case b.failing:
		return nil, errUnasked
	}
	// One pull brings all platforms that are built.
	want := b.o.Platforms
	if !slices.ContainsFunc(want, func(o ocispec.Platform) bool { return platform.String(o) == platform.String(p) }) {
		want = append(slices.Clone(want), p)
	}
	b.step("pull " + name.Familiar())
	desc, err := b.c.Pull(ctx, b.s, name, remote.PullOptions{Platforms: want, Progress: b.transfer})
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", name.Familiar(), err)
	}
	names := []ref.Reference{name}
	if name.Digest != "" {
		names = nil // the tag may mean something else today
	}
	if err := b.s.Commit(ctx, names, desc); err != nil {
		return nil, err
	}
	b.pulled[name] = true
	return b.s.Image(ctx, desc.Digest.Encoded(), &p)
}

// inherit begins the target's config with what the base gives.
func (t *target) inherit() error {
	c := &t.config
	c.SealerVersion, c.Platform = t.b.o.Version, t.platform
	c.Created = t.b.o.SourceDateEpoch
	c.Env, c.Labels = map[string]string{}, map[string]string{}
	c.Args.Current = map[string]string{}
	c.Registry = store.PrivateRegistry{Name: t.b.o.Registry, Naming: t.b.o.Naming}
	if t.base == nil {
		c.Registry.Name, c.Registry.Naming = orDefault(c.Registry.Name, tree.DefaultRegistry), orDefault(c.Registry.Naming, tree.NamingPath)
		return nil
	}
	from := t.base.Config
	maps.Copy(c.Env, from.Env)
	maps.Copy(c.Labels, from.Labels)
	c.Maintainer = from.Maintainer
	c.Args.Parent = maps.Clone(from.Args.Parent)
	if c.Args.Parent == nil && len(from.Args.Current) > 0 {
		c.Args.Parent = map[string]string{}
	}
	maps.Copy(c.Args.Parent, from.Args.Current)
	if err := t.inheritRegistry(from.Registry); err != nil {
		return err
	}
	if !t.b.withBase() {
		return nil
	}
	c.Cmd.Parent = append(slices.Clone(from.Cmd.Parent), from.Cmd.Current...)
	c.Applications = slices.Clone(from.Applications)
	c.Launch = from.Launch
	c.Images = slices.Clone(from.Images)
	c.Layers = slices.Clone(from.Layers)
	t.layers = slices.Clone(t.base.Layers)
	t.below = t.base.Documents
	return nil
}

// inheritRegistry takes the base's private registry: a cluster has one, and
// one rule for the names in it.
func (t *target) inheritRegistry(base store.PrivateRegistry) error {
	r := &t.config.Registry
	r.Name = orDefault(r.Name, orDefault(base.Name, tree.DefaultRegistry))
	naming := orDefault(base.Naming, tree.NamingPath)
	r.Naming = orDefault(r.Naming, naming)
	if len(t.base.Documents) == 0 || !t.b.withBase() {
		return nil
	}
	if r.Naming != naming {
		return fmt.Errorf("the base names its mirrored images by --registry-naming=%s: %s cannot be mixed with it", naming, r.Naming)
	}
	if base.Name != "" && r.Name != base.Name {
		return fmt.Errorf("the base is made for the private registry %s: %s cannot be mixed with it", base.Name, r.Name)
	}
	return nil
}

func orDefault[T ~string](v, d T) T {
	if v == "" {
		return d
	}
	return v
}
