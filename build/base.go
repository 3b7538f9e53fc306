package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// base finds the image of FROM for the target's platform, in the store or in
// its registry. It is nil for scratch.
func (pb *platformBuild) findBase(ctx context.Context, from *kubefile.From) (*store.Image, error) {
	p := pb.platform
	if from.Platform != "" {
		var err error
		if p, err = platform.Parse(from.Platform); err != nil {
			return nil, pb.fault(from, err.Error(), "", err)
		}
	}
	if from.Image == kubefile.Scratch {
		return nil, nil
	}
	name, err := ref.Parse(from.Image)
	if err != nil {
		// It may still be the ID of an image without a name.
		if im, idErr := pb.b.s.Image(ctx, from.Image, &p); idErr == nil {
			if err := pb.b.signed(ctx, im, nil); err != nil {
				return nil, pb.fault(from, err.Error(), baseFix(err, from.Image), err)
			}
			return im, nil
		}
		return nil, pb.fault(from, err.Error(), "FROM IMAGE or FROM scratch", err)
	}
	pinned, err := pb.b.pinBase(name)
	if err != nil {
		return nil, pb.fault(from, err.Error(), "run sealer build --lock", err)
	}
	im, err := pb.b.base(ctx, from.Image, pinned, p)
	if err == nil {
		err = pb.b.signed(ctx, im, &name)
	}
	if err != nil {
		return nil, pb.fault(from, err.Error(), baseFix(err, from.Image), err)
	}
	pb.b.bases[name.String()] = im.Descriptor.Digest
	return im, nil
}

// errUnasked says that a base was not pulled for a build that fails anyway.
var errUnasked = errors.New("it was not asked for")

var errNotHere = errors.New("it is not in the store, and it may not be pulled")

func baseFix(err error, image string) string {
	if errors.Is(err, sign.ErrSignature) {
		return "sign it with sealer push --sign-by, or take the key that it is signed with"
	}
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
	o := remote.PullOptions{Platforms: want, Progress: b.transfer}
	var desc ocispec.Descriptor
	var err error
	if b.o.VerifyKey != nil {
		desc, err = transfer.PullSigned(ctx, b.s, b.c, name, b.o.VerifyKey, o)
	} else {
		desc, err = transfer.Pull(ctx, b.s, b.c, name, o)
	}
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", name.Familiar(), err)
	}
	b.pulled[name] = true
	return b.s.Image(ctx, desc.Digest.Encoded(), &p)
}

// signed returns an error unless the key of the options has signed the base im.
// The signatures in the store are tried first, then those in the repository of
// name; a nil name has none.
func (b *builder) signed(ctx context.Context, im *store.Image, name *ref.Reference) error {
	switch {
	case b.o.VerifyKey == nil:
		return nil
	case name == nil || b.o.Offline || b.o.Pull == PullNever:
		return transfer.CheckKept(b.s, b.o.VerifyKey, im.ID)
	}
	return transfer.CheckSignature(ctx, b.s, b.c, b.o.VerifyKey, im.ID, *name)
}

// inherit begins the config with the base's.
func (pb *platformBuild) inherit() error {
	c := &pb.config
	c.SealerVersion, c.Platform = pb.b.o.Version, pb.platform
	c.Created = pb.b.o.SourceDateEpoch
	c.Env, c.Labels = map[string]string{}, map[string]string{}
	c.Args.Current = map[string]string{}
	c.PrivateRegistry = image.PrivateRegistry{Name: pb.b.o.PrivateRegistry, Naming: pb.b.o.Naming}
	if pb.base == nil {
		c.PrivateRegistry.Name, c.PrivateRegistry.Naming = cmp.Or(c.PrivateRegistry.Name, ref.DefaultPrivate), cmp.Or(c.PrivateRegistry.Naming, tree.NamingPath)
		return nil
	}
	from := pb.base.Config
	maps.Copy(c.Env, from.Env)
	maps.Copy(c.Labels, from.Labels)
	c.Maintainer = from.Maintainer
	c.Args.Parent = maps.Clone(from.Args.Parent)
	if c.Args.Parent == nil && len(from.Args.Current) > 0 {
		c.Args.Parent = map[string]string{}
	}
	maps.Copy(c.Args.Parent, from.Args.Current)
	if err := pb.inheritRegistry(from.PrivateRegistry); err != nil {
		return err
	}
	if !pb.b.withBase() {
		return nil
	}
	c.Cmd.Parent = append(slices.Clone(from.Cmd.Parent), from.Cmd.Current...)
	c.Applications = slices.Clone(from.Applications)
	c.Launch = from.Launch
	c.Images = slices.Clone(from.Images)
	c.Gaps = slices.Clone(from.Gaps)
	c.Layers = slices.Clone(from.Layers)
	pb.layers = slices.Clone(pb.base.Layers)
	pb.below = pb.base.Documents
	return pb.inheritHeld()
}

// inheritRegistry takes the base's private registry: a cluster has one, and
// one rule for the names in it.
func (pb *platformBuild) inheritRegistry(base image.PrivateRegistry) error {
	r := &pb.config.PrivateRegistry
	r.Name = cmp.Or(r.Name, cmp.Or(base.Name, ref.DefaultPrivate))
	naming := cmp.Or(base.Naming, tree.NamingPath)
	r.Naming = cmp.Or(r.Naming, naming)
	if len(pb.base.Documents) == 0 || !pb.b.withBase() {
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

// inheritHeld notes the container images in files of the base, so that no image
// of this build takes the name of one of them.
func (pb *platformBuild) inheritHeld() error {
	held, err := transfer.HeldInFiles(pb.b.s, pb.base)
	if held != nil {
		pb.held = []*tree.Document{held}
	}
	return err
}
