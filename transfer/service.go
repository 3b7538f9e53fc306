package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// A Selection says which ClusterImages of a store are served.
type Selection struct {
	// Names are names or IDs. Where two images have one tag, the registry answers
	// with the later image's.
	Names []string
	// All serves every ClusterImage of the store instead; where two have one tag,
	// the one that was built last, or came last, counts.
	All bool
	// Platform is the only one served; nil serves all.
	Platform *ocispec.Platform
}

// A Service serves the container images inside ClusterImages of a store, and
// follows the store: Reload takes up the images that the names mean by then.
type Service struct {
	*registry.Handler
	store   *store.Store
	chosen  Selection
	options registry.Options
	index   os.FileInfo // of the store, when it was read; nil for none
	served  served
}

// served is the content of ClusterImages as one registry.
type served struct {
	names   []string
	ids     []digest.Digest // of the manifests, in order
	layers  []digest.Digest // those of the first image lowest
	options registry.Options
	skipped []error
}

// NewService reads the images that chosen says and returns their registry. o says
// the users and the logger. The layers are kept from prune until Close, which the
// caller calls when no more requests come; a store that this user may not write
// is served without. An image that is no ClusterImage is refused; Skipped has
// those among All. The error wraps store.ErrNotFound where an image is not there.
func NewService(ctx context.Context, s *store.Store, chosen Selection, o registry.Options) (*Service, error) {
	v := &Service{store: s, chosen: chosen, options: o, index: s.IndexInfo()}
	content, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(content.ids) == 0 {
		return nil, errors.Join(append(content.skipped, fmt.Errorf("serve: the store has no ClusterImage: %w", store.ErrNotFound))...)
	}
	o, err = v.pin(ctx, content)
	if err != nil {
		return nil, err
	}
	layers, err := trees(ctx, s, content.layers)
	if err != nil {
		return nil, errors.Join(err, o.Release())
	}
	if v.Handler, err = registry.NewHandler(ctx, layers, o); err != nil {
		return nil, errors.Join(err, o.Release())
	}
	v.served = content
	return v, nil
}

// Names returns the names or IDs of the images served, the last one winning.
func (v *Service) Names() []string { return v.served.names }

// Skipped returns an error for each image among Selection.All that is not served.
func (v *Service) Skipped() []error { return v.served.skipped }

// Count returns the number of container images served, each reference once.
func (v *Service) Count() int {
	seen := map[ref.Reference]bool{}
	for _, r := range v.served.options.References {
		seen[r] = true
	}
	return len(seen)
}

// PrivateRegistries returns the private registries' names in the images.
func (v *Service) PrivateRegistries() []string { return v.served.options.PrivateRegistries }

// Changed reports whether the store's list of images has changed since the last
// Reload. It is cheap.
func (v *Service) Changed() bool {
	now := v.store.IndexInfo()
	if now == nil || v.index == nil {
		return now != v.index
	}
	return !os.SameFile(now, v.index) || now.ModTime() != v.index.ModTime() || now.Size() != v.index.Size()
}

// Reload serves the images that the names mean now, as registry.Handler.Replace
// does, and reports whether they are others than before. With users it reads the
// users again, too. After an error all is served as before.
func (v *Service) Reload(ctx context.Context, users bool) (changed bool, err error) {
	v.index = v.store.IndexInfo() // before it is read: what changes meanwhile is seen next time
	content, err := v.read(ctx)
	if err != nil {
		return false, err
	}
	if len(content.ids) == 0 {
		return false, fmt.Errorf("serve: the store has no ClusterImage any more: %w", store.ErrNotFound)
	}
	changed = !slices.Equal(content.ids, v.served.ids)
	if !changed && !users {
		return false, nil
	}
	o, err := v.pin(ctx, content)
	if err != nil {
		return false, err
	}
	layers, err := trees(ctx, v.store, content.layers)
	if err == nil {
		err = v.Replace(ctx, layers, o)
	}
	if err != nil {
		return false, errors.Join(err, o.Release())
	}
	v.served = content
	return changed, nil
}

// pin keeps the layers of content until the returned options' Release.
func (v *Service) pin(ctx context.Context, content served) (registry.Options, error) {
	o := content.options
	o.Htpasswd, o.Logger, o.Linger = v.options.Htpasswd, v.options.Logger, v.options.Linger
	release, err := v.store.Pin(ctx, content.layers)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		release, err = func() error { return nil }, nil
	}
	o.Release = release
	return o, err
}

func (v *Service) read(ctx context.Context) (served, error) {
	if v.chosen.All {
		return v.readAll(ctx)
	}
	var out served
	for _, name := range v.chosen.Names {
		images, err := Images(ctx, v.store, name, v.chosen.Platform)
		if err != nil {
			return served{}, err
		}
		for _, im := range images {
			out.add(im)
		}
		out.names = append(out.names, name)
	}
	return out, nil
}

// readAll skips the images that cannot be served.
func (v *Service) readAll(ctx context.Context) (served, error) {
	images, err := v.store.Images(ctx)
	if err != nil && len(images) == 0 {
		return served{}, err
	}
	var out served
	if err != nil {
		out.skipped = append(out.skipped, err)
	}
	slices.SortStableFunc(images, func(a, b store.Image) int {
		return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.ID, b.ID))
	})
	only := v.chosen.Platform
	for i := range images {
		im := &images[i]
		if p := im.Platform(); only != nil && !platform.Match(*only, p) {
			continue
		}
		name := im.ID
		if len(im.Names) > 0 {
			name = im.Names[0]
		}
		out.add(im)
		if !slices.Contains(out.names, name) {
			out.names = append(out.names, name)
		}
	}
	return out, nil
}

func (v *served) add(im *store.Image) {
	v.ids = append(v.ids, im.ManifestDescriptor.Digest)
	for _, id := range im.LayerIDs() {
		// A layer that an earlier image has, too, goes on top.
		v.layers = append(slices.DeleteFunc(v.layers, func(o digest.Digest) bool { return o == id }), id)
	}
	v.options.Documents = append(v.options.Documents, im.Documents...)
	v.options.References = append(v.options.References, im.Config.References()...)
	v.options.PrivateRegistries = append(v.options.PrivateRegistries, im.Config.PrivateRegistry.Name)
}

// trees returns the layers as a registry reads them: a registry tree that is not
// written by its document.
func trees(ctx context.Context, s *store.Store, ids []digest.Digest) ([]registry.Layer, error) {
	out := make([]registry.Layer, len(ids))
	for i, id := range ids {
		if out[i].Dir = s.LayerDir(id); !s.IsUnwritten(id) {
			continue
		}
		doc, err := s.Document(ctx, id)
		if err != nil {
			return nil, err
		}
		out[i] = registry.Layer{Document: doc, Blob: s.BlobPath}
	}
	return out, nil
}
