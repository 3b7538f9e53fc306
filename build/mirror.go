package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// mirror finds the images of all targets, brings them, and puts a registry
// layer on each target that needs one.
func (b *builder) mirror(ctx context.Context, builds []*platformBuild) error {
	lists, err := b.lists()
	if err != nil {
		return err
	}
	var errs []error
	for i, pb := range builds {
		found, err := pb.discover(ctx, lists)
		if err == nil {
			err = b.openGaps(found)
		}
		errs = append(errs, err)
		b.result.Images[i].Found = found
	}
	if err := unique(errs); err != nil {
		return err
	}
	known := b.known(ctx, builds)
	b.attachments = b.belonging(known)
	reqs := make([][]mirror.Request, len(builds))
	for i, pb := range builds {
		reqs[i] = b.requests(b.result.Images[i].Found)
		errs = append(errs, b.pin(reqs[i], pb.config.PrivateRegistry.Name))
	}
	if err := unique(errs); err != nil {
		return err
	}
	if err := b.prefetch(ctx, builds, reqs, known); err != nil {
		return err
	}
	for i, pb := range builds {
		found := b.result.Images[i].Found
		result, err := pb.mirrorTarget(ctx, reqs[i], known)
		b.result.Images[i].Mirror = result
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pb.record(found, result)
		if !b.o.DryRun {
			errs = append(errs, pb.registryLayer(ctx, found, result))
		}
	}
	if !b.o.DryRun && !b.o.Locked {
		b.remember(known)
	}
	if err := unique(errs); err != nil {
		return err
	}
	return b.writeLock()
}

// prefetch mirrors the images of several platforms together and pins each tag
// to the digest that it had then. The platforms agree on a tag, and each tag
// and shared blob is asked for once. Failures are reported later, by the
// platform that needs the image.
func (b *builder) prefetch(ctx context.Context, builds []*platformBuild, reqs [][]mirror.Request, known map[string]digest.Digest) error {
	if len(builds) < 2 || b.o.DryRun {
		return nil
	}
	type name struct{ reference, source ref.Reference }
	at := map[name]int{}
	var all []mirror.Request
	for i := range reqs {
		for _, q := range reqs[i] {
			k := name{q.Reference, q.Source}
			if _, ok := at[k]; !ok && fetchedFrom(q).Registry != builds[i].config.PrivateRegistry.Name {
				at[k] = len(all)
				all = append(all, q)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	b.step(fmt.Sprintf("mirror images (%d) for platforms (%d)", len(all), len(builds)))
	o := builds[0].options(known)
	o.Platforms, o.AllowMissing, o.Below, o.Held, o.Prefetch = b.o.Platforms, true, nil, nil, true
	result, err := mirror.Mirror(ctx, b.c, b.s, all, o)
	if err != nil {
		return err
	}
	for _, note := range result.Notes {
		b.warn(fmt.Sprintf("not brought: %v", note))
	}
	for i := range reqs {
		for j := range reqs[i] {
			q := &reqs[i][j]
			if k, ok := at[name{q.Reference, q.Source}]; ok && q.Digest == "" {
				q.Digest = result.Images[k].Descriptor.Digest
			}
		}
	}
	return nil
}

// belonging returns the finder of the artifacts that belong to images, nil where
// they are left out: of a locked build, those of the lock file.
func (b *builder) belonging(known map[string]digest.Digest) *mirror.Attachments {
	switch {
	case b.o.NoReferrers:
		return nil
	case b.o.Locked:
		return &mirror.Attachments{Known: b.locked.Images, Fixed: true}
	}
	return &mirror.Attachments{Known: maps.Clone(known)}
}

// known collects the digests that references had in earlier builds.
func (b *builder) known(ctx context.Context, builds []*platformBuild) map[string]digest.Digest {
	known := map[string]digest.Digest{}
	for _, pb := range builds {
		maps.Copy(known, mirror.KnownFrom(pb.below))
	}
	maps.Copy(known, b.earlier(ctx))
	return known
}

// mirrorTarget mirrors reqs for the platform, or plans it.
func (pb *platformBuild) mirrorTarget(ctx context.Context, reqs []mirror.Request, known map[string]digest.Digest) (*mirror.Result, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	b := pb.b
	b.step(fmt.Sprintf("[%s] mirror images (%d)", platform.String(pb.platform), len(reqs)))
	o := pb.options(known)
	o.Resolved = func(r *mirror.Result) { pb.draft = pb.startDraft(ctx, r) }
	run := mirror.Mirror
	if b.o.DryRun {
		run = mirror.Plan
	}
	result, err := run(ctx, b.c, b.s, reqs, o)
	if err != nil {
		if pb.b.missing(result) {
			err = incomplete(err)
		}
		return result, err
	}
	for _, note := range result.Notes {
		b.warn(fmt.Sprintf("not brought: %v", note))
	}
	maps.Copy(known, result.Attached())
	for _, im := range result.Images {
		if im.Err != nil {
			b.warn(fmt.Sprintf("missing: %v", im.Err))
		} else {
			known[im.Reference.String()] = im.Descriptor.Digest
		}
	}
	return result, nil
}

func (pb *platformBuild) options(known map[string]digest.Digest) mirror.Options {
	b := pb.b
	return mirror.Options{
		Platforms:       []ocispec.Platform{pb.platform},
		AllPlatforms:    b.o.AllPlatforms,
		Jobs:            b.o.Jobs,
		Naming:          pb.config.PrivateRegistry.Naming,
		PrivateRegistry: pb.config.PrivateRegistry.Name,
		Below:           pb.below,
		Held:            pb.held,
		AllowMissing:    b.o.AllowMissing,
		Offline:         b.o.Offline,
		Known:           known,
		Ledger:          &b.ledger,
		Attachments:     b.attachments,
		Progress:        b.transfer,
	}
}

// missing tells whether images are not there to be had, as against registries
// that could not be asked.
func (b *builder) missing(r *mirror.Result) bool {
	return r != nil && slices.ContainsFunc(r.Images, func(im mirror.Image) bool {
		return errors.Is(im.Err, remote.ErrNotFound) || errors.Is(im.Err, remote.ErrPlatform) || errors.Is(im.Err, mirror.ErrNotMirrored) || im.Err != nil && b.o.Offline
	})
}

// registryLayer puts the registry layer on top, when there is a name to add,
// and checks that nothing is missing.
func (pb *platformBuild) registryLayer(ctx context.Context, found *imagelist.Result, result *mirror.Result) error {
	docs := pb.below
	if result != nil {
		if doc := result.Document(pb.below); doc != nil {
			layer, err := pb.writeRegistryLayer(ctx, doc)
			if err != nil {
				return err
			}
			docs = append(slices.Clip(docs), doc)
			pb.push(layer, image.ConfigLayer{Type: image.LayerTypeBase, Value: image.RegistryLayerValue})
		}
	}
	return pb.complete(ctx, found, docs)
}

// A draft is a registry layer that is prepared beside the fetching of its blobs.
type draft struct {
	done  chan struct{}
	layer *store.RegistryDraft // set, as err, when done is closed
	err   error
}

// startDraft prepares, in a goroutine that b.closers ends, the registry layer
// for the case that no blob of r is missing. It returns nil if there is no
// layer to make.
func (pb *platformBuild) startDraft(ctx context.Context, r *mirror.Result) *draft {
	if slices.ContainsFunc(r.Images, func(im mirror.Image) bool { return im.Err != nil && !pb.b.o.AllowMissing }) {
		return nil // the build fails
	}
	doc := r.Document(pb.below)
	if doc == nil {
		return nil
	}
	d := &draft{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.layer, d.err = pb.b.s.DraftRegistryLayer(ctx, doc)
	}()
	pb.b.closers = append(pb.b.closers, func() error {
		if <-d.done; d.err != nil {
			return nil // writeRegistryLayer reports it
		}
		return d.layer.Discard()
	})
	return d
}

// writeRegistryLayer makes the layer of doc, out of the draft if that is it.
func (pb *platformBuild) writeRegistryLayer(ctx context.Context, doc *tree.Document) (image.Layer, error) {
	if d := pb.draft; d != nil {
		if <-d.done; d.err != nil {
			return image.Layer{}, d.err
		}
		_, id, err := doc.Encode()
		if err != nil {
			return image.Layer{}, err
		}
		if id == d.layer.ID {
			return d.layer.Commit(ctx)
		}
	}
	return pb.b.s.WriteRegistryLayer(ctx, doc) // blobs are missing, and that is allowed
}

// present reports whether the trees of registry layers are whole on the disk.
func (pb *platformBuild) present(docs []*tree.Document) bool {
	return !slices.ContainsFunc(docs, func(doc *tree.Document) bool {
		_, id, err := doc.Encode()
		return err != nil || !pb.b.s.HasTree(id, doc)
	})
}

// complete checks that every image that the cluster will pull, after the
// redirect, resolves in the registry layers, docs, to full content for the
// platform.
func (pb *platformBuild) complete(ctx context.Context, found *imagelist.Result, docs []*tree.Document) error {
	var references []ref.Reference
	askers := map[ref.Reference][]string{}
	for _, im := range slices.Concat(found.Mirror(false), found.Requirements()) {
		references = append(references, im.Reference)
		askers[im.Reference] = asked(im.Findings)
	}
	ids := transfer.RegistryLayers(pb.b.s, pb.ids())
	// Layers do not change: images that resolved once resolve again while the
	// layers' files are here.
	o := registry.VerifyOptions{Naming: pb.config.PrivateRegistry.Naming, PrivateRegistry: pb.config.PrivateRegistry.Name, Platforms: []ocispec.Platform{pb.platform}}
	whole := pb.b.cacheFile("whole", cacheKey("whole", ids, references, o))
	if _, err := os.Stat(whole); err == nil && !pb.b.o.NoCache && pb.present(docs) {
		return nil
	}
	missing, err := transfer.Lacking(ctx, pb.b.s, ids, references, o)
	if err != nil {
		return err
	}
	told := map[ref.Reference]bool{} // by bring, which is allowed to go on without them
	for _, im := range pb.config.Images {
		told[im.Reference.Reference] = im.Missing != ""
	}
	var errs []error
	for _, m := range missing {
		if !told[m.Reference] || !pb.b.o.AllowMissing {
			errs = append(errs, fmt.Errorf("%s: %s is not in the image: %w; asked for by %s",
				m.Reference.Familiar(), m.Target, m.Err, strings.Join(askers[m.Reference], ", ")))
		}
	}
	if len(missing) == 0 {
		pb.b.keepJSON(whole, true)
	}
	if len(errs) == 0 {
		return nil
	}
	if pb.b.o.AllowMissing {
		for _, err := range errs {
			pb.b.warn(err.Error())
		}
		return nil
	}
	return incomplete(joinFaults(errs...))
}
