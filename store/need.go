package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
)

// A need is the content of all images, which prune leaves.
type need struct {
	blobs, layers map[digest.Digest]bool
	// Of a damaged image some content may have no known name: then no blob, or no
	// layer, may be taken.
	allBlobs, allLayers bool
	damaged             []error // names the images, and the way out
}

// needed returns the need of all images, mounts and pins. It fails rather than
// miss one: prune removes every blob that is not named.
func (s *Store) needed(ctx context.Context) (*need, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	n := &need{blobs: map[digest.Digest]bool{}}
	if n.layers, err = s.pinned(); err != nil {
		return nil, err
	}
	mounts, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		for _, id := range m.Layers {
			n.layers[id] = true
		}
	}
	for id := range n.layers {
		if err := s.linked(ctx, id, n.blobs); err != nil {
			return nil, err
		}
	}
	known := s.readLayerCache()
	each := make([]need, len(idx.Manifests))
	errs := make([]error, len(idx.Manifests))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	seen := map[digest.Digest]bool{}
	for i, entry := range idx.Manifests {
		if seen[entry.Digest] {
			continue
		}
		seen[entry.Digest] = true
		g.Go(func() error {
			each[i] = need{blobs: map[digest.Digest]bool{}, layers: map[digest.Digest]bool{}}
			errs[i] = s.needs(ctx, &each[i], entry, known)
			return nil
		})
	}
	_ = g.Wait() // errs has them
	if err := known.write(ctx, s); err != nil {
		s.o.Logger.Debug("the cache of layers is not written", "error", err)
	}
	for i, entry := range idx.Manifests {
		n.add(&each[i])
		switch err := errs[i]; {
		case err == nil:
		case !isDamage(err):
			return nil, fmt.Errorf("image %s: %w", nameOr(entry), err)
		default:
			n.damaged = append(n.damaged, fmt.Errorf("image %[1]s: %[2]w: %[3]w: mend it with: sealer verify --repair %[1]s, or drop it with: sealer rmi %[1]s", nameOr(entry), ErrDamaged, err))
		}
	}
	return n, nil
}

// add adds the content of other to n.
func (n *need) add(other *need) {
	maps.Copy(n.blobs, other.blobs)
	maps.Copy(n.layers, other.layers)
	n.allBlobs = n.allBlobs || other.allBlobs
	n.allLayers = n.allLayers || other.allLayers
}

// linked adds the blobs that the tree of the registry layer id links to. Their
// bytes stay on the disk with the links: an image that comes back finds them, and
// writes no second copy that the links would miss. A tree that is not written has
// the blobs of its document.
func (s *Store) linked(ctx context.Context, id digest.Digest, blobs map[digest.Digest]bool) error {
	if s.IsUnwritten(id) {
		doc, err := s.Document(ctx, id)
		if err != nil {
			return err
		}
		blobs[id] = true
		for _, b := range doc.Blobs {
			blobs[b.Digest] = true
		}
		return nil
	}
	names, err := fs.Glob(os.DirFS(s.LayerDir(id)), path.Join(tree.Root, "docker/registry/v2/blobs/sha256/*/*"))
	if err != nil {
		return err
	}
	if len(names) > 0 {
		blobs[id] = true // the document
	}
	for _, name := range names {
		blobs[digest.NewDigestFromEncoded(digest.SHA256, path.Base(name))] = true
	}
	return nil
}

// needs adds the content of one image to n: as far as it can be read. known may be
// nil.
func (s *Store) needs(ctx context.Context, n *need, entry ocispec.Descriptor, known *layerCache) error {
	n.blobs[entry.Digest] = true
	manifests, sub, err := s.manifests(ctx, entry)
	if err != nil {
		n.allBlobs, n.allLayers = true, true
		return err
	}
	if sub != nil {
		for _, m := range sub.Manifests { // attestations too
			n.blobs[m.Digest] = true
		}
	}
	var errs []error
	for _, desc := range manifests {
		config, err := s.namedIn(ctx, desc, n.blobs)
		if err != nil {
			n.allBlobs, n.allLayers = true, true
			errs = append(errs, err)
			continue
		}
		layers, err := s.layersOf(ctx, desc, config, known)
		if err != nil {
			n.allLayers = true                                                        // their IDs are in the config
			n.allBlobs = n.allBlobs || config.MediaType == image.MediaTypeSplitConfig // and the blob manifests
			errs = append(errs, err)
			continue
		}
		for _, l := range layers {
			n.layers[l.ID] = true
		}
		for _, m := range (&image.Config{Layers: layers}).BlobManifests() {
			if _, err := s.namedIn(ctx, m, n.blobs); err != nil {
				n.allBlobs = true
				errs = append(errs, fmt.Errorf("manifest of mirrored blobs: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// namedIn adds the manifest desc and the blobs that it names to blobs, and returns
// its config's descriptor. A manifest is searched for digests, which takes a part
// of the time of decoding it: what it names for another purpose is kept, too.
func (s *Store) namedIn(ctx context.Context, desc ocispec.Descriptor, blobs map[digest.Digest]bool) (config ocispec.Descriptor, err error) {
	b, err := s.ReadBlob(ctx, desc.Digest, maxManifest)
	if err != nil {
		return config, err
	}
	fail := func(err error) (ocispec.Descriptor, error) {
		return config, fmt.Errorf("blob %s: %w: %w", desc.Digest, ErrInvalid, err)
	}
	if int64(len(b)) != desc.Size {
		return config, fmt.Errorf("blob %s: %w: %d bytes, want %d", desc.Digest, ErrMismatch, len(b), desc.Size)
	}
	err = field(b, "config", &config)
	if err == nil && config.Digest == "" { // keys count in any case of their letters
		var m ocispec.Manifest
		err = json.Unmarshal(b, &m)
		config = m.Config
	}
	if err != nil {
		return fail(err)
	}
	blobs[desc.Digest], blobs[config.Digest] = true, true
	if !bytes.ContainsRune(b, '\\') { // a digest could be written with escapes
		eachDigest(b, func(d digest.Digest) { blobs[d] = true })
		return config, nil
	}
	var m struct { // its annotations are most of a manifest
		Layers []struct {
			Digest digest.Digest `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fail(err)
	}
	for _, l := range m.Layers {
		blobs[l.Digest] = true
	}
	return config, nil
}

// eachDigest calls f with each digest that stands in b.
func eachDigest(b []byte, f func(digest.Digest)) {
	const prefix, length = "sha256:", len("sha256:") + 64
	for {
		i := bytes.Index(b, []byte(prefix))
		if i < 0 {
			return
		}
		b = b[i:]
		if len(b) >= length {
			f(digest.Digest(b[:length]))
		}
		b = b[len(prefix):]
	}
}

// layersOf returns the layers of the manifest desc, whose config is config.
func (s *Store) layersOf(ctx context.Context, desc, config ocispec.Descriptor, known *layerCache) ([]image.ConfigLayer, error) {
	if platform.IsConfig(config.MediaType) { // one that is no ClusterImage, too: it is in the index
		img := &Image{ManifestDescriptor: desc}
		err := s.readJSON(ctx, desc, maxManifest, &img.Manifest)
		if err == nil {
			err = s.readContent(ctx, img)
		}
		var out []image.ConfigLayer
		for _, id := range img.LayerIDs() {
			out = append(out, image.ConfigLayer{ID: id})
		}
		return out, err
	}
	if !image.IsConfig(config.MediaType) {
		return nil, nil // of another artifact nothing is unpacked
	}
	if layers, ok := known.layers(s, config); ok {
		return layers, nil
	}
	layers, err := s.configLayers(ctx, config)
	if err == nil {
		known.learn(config, layers)
	}
	return layers, err
}

// configLayers decodes the layers of a config alone, which stand near its
// beginning: the rest is a hundred times longer.
func (r *reader) configLayers(ctx context.Context, config ocispec.Descriptor) (layers []image.ConfigLayer, err error) {
	b, err := r.ReadBlob(ctx, config.Digest, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if err := field(b, "layers", &layers); err != nil {
		return nil, fmt.Errorf("config: blob %s: %w: %w", config.Digest, ErrInvalid, err)
	}
	return layers, nil
}

// field decodes the field name of the JSON object b into v, and nothing that
// follows it.
func field(b []byte, name string, v any) error {
	if bytes.Count(b, []byte(`"`+name+`"`)) > 1 || bytes.ContainsRune(b, '\\') { // of two, the last counts
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil || all[name] == nil {
			return err
		}
		return json.Unmarshal(all[name], v)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if key == name {
			return dec.Decode(v)
		}
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			return err
		}
	}
	return nil
}
