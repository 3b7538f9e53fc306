package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// mirror finds the images of all targets, brings them, and puts a registry
// layer on each target that needs one.
func (b *builder) mirror(ctx context.Context, targets []*target) error {
	lists, err := b.lists()
	if err != nil {
		return err
	}
	var errs []error
	for i, t := range targets {
		found, err := t.discover(ctx, lists)
		errs = append(errs, err)
		b.result.Images[i].Found = found
	}
	if err := unique(compact(errs)); err != nil {
		return err
	}
	known := b.known(ctx, targets)
	reqs := make([][]mirror.Request, len(targets))
	for i, t := range targets {
		reqs[i] = b.requests(b.result.Images[i].Found)
		errs = append(errs, b.pin(reqs[i], t.config.Registry.Name))
	}
	if err := unique(compact(errs)); err != nil {
		return err
	}
	if err := b.ahead(ctx, targets, reqs, known); err != nil {
		return err
	}
	for i, t := range targets {
		found := b.result.Images[i].Found
		result, err := t.bring(ctx, reqs[i], known)
		b.result.Images[i].Mirror = result
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.record(found, result)
		if !b.o.DryRun {
			errs = append(errs, t.registryLayer(ctx, found, result))
		}
	}
	if !b.o.DryRun && !b.o.Locked {
		b.remember(known)
	}
	if err := unique(compact(errs)); err != nil {
		return err
	}
	return b.writeLock()
}

// ahead brings for several platforms at once what each of them will ask for,
// and pins the tags to what they meant then, so that the platforms agree and
// each shared blob and each tag is asked for once. What fails here is reported
// by the platform that needs it.
func (b *builder) ahead(ctx context.Context, targets []*target, reqs [][]mirror.Request, known map[string]digest.Digest) error {
	if len(targets) < 2 || b.o.DryRun {
		return nil
	}
	type name struct{ reference, source ref.Reference }
	at := map[name]int{}
	var all []mirror.Request
	for i := range reqs {
		for _, q := range reqs[i] {
			k := name{q.Reference, q.Source}
			if _, ok := at[k]; !ok && fetchedFrom(q).Registry != targets[i].config.Registry.Name {
				at[k] = len(all)
				all = append(all, q)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	b.step(fmt.Sprintf("mirror %d images for %d platforms", len(all), len(targets)))
	o := targets[0].options(known)
	o.Platforms, o.AllowMissing, o.Below = b.o.Platforms, true, nil
	result, err := mirror.Mirror(ctx, b.c, b.s, all, o)
	if err != nil {
		return err
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

func compact(errs []error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// known collects the digests that references had in earlier builds.
func (b *builder) known(ctx context.Context, targets []*target) map[string]digest.Digest {
	known := map[string]digest.Digest{}
	for _, t := range targets {
		maps.Copy(known, mirror.KnownFrom(t.below))
	}
	maps.Copy(known, b.earlier(ctx))
	return known
}

// bring mirrors reqs for the target's platform, or plans it.
func (t *target) bring(ctx context.Context, reqs []mirror.Request, known map[string]digest.Digest) (*mirror.Result, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	b := t.b
	b.step(fmt.Sprintf("[%s] mirror %d images", platform.String(t.platform), len(reqs)))
	o := t.options(known)
	o.Resolved = func(r *mirror.Result) { t.draft = t.startDraft(ctx, r) }
	run := mirror.Mirror
	if b.o.DryRun {
		run = mirror.Plan
	}
	result, err := run(ctx, b.c, b.s, reqs, o)
	if err != nil {
		if t.b.missing(result) {
			err = incompleteError{err}
		}
		return result, err
	}
	for _, im := range result.Images {
		if im.Err != nil {
			b.warn(fmt.Sprintf("missing: %v", im.Err))
		} else {
			known[im.Reference.String()] = im.Descriptor.Digest
		}
	}
	return result, nil
}

func (t *target) options(known map[string]digest.Digest) mirror.Options {
	b := t.b
	return mirror.Options{
		Platforms:    []ocispec.Platform{t.platform},
		AllPlatforms: b.o.AllPlatforms,
		Jobs:         b.o.Jobs,
		Naming:       t.config.Registry.Naming,
		Private:      t.config.Registry.Name,
		Below:        t.below,
		AllowMissing: b.o.AllowMissing,
		Offline:      b.o.Offline,
		Known:        known,
		Progress:     b.transfer,
		Logger:       b.log,
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
func (t *target) registryLayer(ctx context.Context, found *imagelist.Result, result *mirror.Result) error {
	docs := t.below
	if result != nil {
		if doc := result.Document(t.below); doc != nil {
			layer, err := t.writeRegistryLayer(ctx, doc)
			if err != nil {
				return err
			}
			docs = append(slices.Clip(docs), doc)
			t.push(layer, store.ConfigLayer{Type: store.LayerTypeBase, Value: store.RegistryLayerValue})
		}
	}
	return t.complete(ctx, found, docs)
}

// A draft is a registry layer that is prepared beside the fetching of its blobs.
type draft struct {
	done  chan struct{}
	layer *store.RegistryDraft // set, as err, when done is closed
	err   error
}

// startDraft prepares the registry layer for what r will be if no blob is
// missing. It is nil when there will be none.
func (t *target) startDraft(ctx context.Context, r *mirror.Result) *draft {
	if slices.ContainsFunc(r.Images, func(im mirror.Image) bool { return im.Err != nil && !t.b.o.AllowMissing }) {
		return nil // the build fails
	}
	doc := r.Document(t.below)
	if doc == nil {
		return nil
	}
	d := &draft{done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.layer, d.err = t.b.s.DraftRegistryLayer(ctx, doc)
	}()
	t.b.closers = append(t.b.closers, func() error {
		if <-d.done; d.err != nil {
			return nil // reported by who wanted the layer
		}
		return d.layer.Discard()
	})
	return d
}

// writeRegistryLayer makes the layer of doc, out of the draft if that is it.
func (t *target) writeRegistryLayer(ctx context.Context, doc *tree.Document) (store.Layer, error) {
	if d := t.draft; d != nil {
		if <-d.done; d.err != nil {
			return store.Layer{}, d.err
		}
		_, id, err := doc.Encode()
		if err != nil {
			return store.Layer{}, err
		}
		if id == d.layer.ID {
			return d.layer.Commit(ctx)
		}
	}
	return t.b.s.WriteRegistryLayer(ctx, doc) // blobs are missing, and that is allowed
}

// present reports whether the trees of registry layers are whole on the disk.
func (t *target) present(docs []*tree.Document) bool {
	return !slices.ContainsFunc(docs, func(doc *tree.Document) bool {
		_, id, err := doc.Encode()
		return err != nil || !tree.Present(t.b.s.LayerDir(id), doc)
	})
}

// complete checks that every image that the cluster will pull, after the
// redirect, resolves in the registry layers, docs, to full content for the
// platform.
func (t *target) complete(ctx context.Context, found *imagelist.Result, docs []*tree.Document) error {
	var references []ref.Reference
	askers := map[ref.Reference][]string{}
	for _, im := range slices.Concat(found.Mirror(false), found.Requirements()) {
		references = append(references, im.Reference)
		askers[im.Reference] = asked(im.Findings)
	}
	var ids []digest.Digest // layers without a registry tree have no say
	var dirs []string
	for _, l := range t.layers {
		dir := t.b.s.LayerDir(l.ID)
		if _, err := os.Lstat(filepath.Join(dir, tree.Root)); err == nil {
			ids, dirs = append(ids, l.ID), append(dirs, dir)
		}
	}
	// Layers do not change: what resolved once does, as long as its files are
	// here.
	o := registry.VerifyOptions{Naming: t.config.Registry.Naming, Private: t.config.Registry.Name, Platforms: []ocispec.Platform{t.platform}}
	whole := t.b.cacheFile("whole", cacheKey("whole", ids, references, o))
	if _, err := os.Stat(whole); err == nil && !t.b.o.NoCache && t.present(docs) {
		return nil
	}
	missing, err := registry.Verify(ctx, dirs, references, o)
	if err != nil {
		return err
	}
	told := map[string]bool{} // by bring, which is allowed to go on without them
	for _, im := range t.config.Images {
		told[im.Reference] = im.Missing != ""
	}
	var errs []error
	for _, m := range missing {
		if !told[m.Reference.String()] || !t.b.o.AllowMissing {
			errs = append(errs, fmt.Errorf("%s: %s is not in the image: %w; asked for by %s",
				familiar(m.Reference.String()), m.Target, m.Err, strings.Join(askers[m.Reference], ", ")))
		}
	}
	if len(missing) == 0 {
		t.b.keepJSON(whole, true)
	}
	if len(errs) == 0 {
		return nil
	}
	if t.b.o.AllowMissing {
		for _, err := range errs {
			t.b.warn(err.Error())
		}
		return nil
	}
	return incompleteError{errors.Join(errs...)}
}
