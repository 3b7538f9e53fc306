package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/tree"
)

// VerifyOptions are the options of Verify.
type VerifyOptions struct {
	// Repair, when it is not nil, writes the content of a blob that is missing
	// or broken, as PutBlob's write does; layers are then unpacked again.
	Repair func(ctx context.Context, desc ocispec.Descriptor, w io.Writer) error
	// Shared, when it is not nil, is given to several calls of Verify, one after
	// another, that shall read content of several images once.
	Shared *Shared
}

// Shared is the content that several calls of Verify have read, with its faults.
// The zero value is empty.
type Shared struct {
	blobs  map[sizedBlob]error
	layers map[digest.Digest][]Fault // by ID
}

type sizedBlob struct {
	digest digest.Digest
	size   int64
}

// A Fault is something that Verify found to be not as it should.
type Fault struct {
	What     string // "blob sha256:…", "layer sha256:…: etc/hosts"
	Err      error
	Repaired bool
}

// A Verification counts the content that Verify read, and lists the faults.
type Verification struct {
	Blobs  int   // digests compared
	Layers int   // unpacked layers compared with their blobs
	Bytes  int64 // of the blobs
	Faults []Fault
}

// Broken returns the faults that were not repaired.
func (v *Verification) Broken() []Fault {
	var out []Fault
	for _, f := range v.Faults {
		if !f.Repaired {
			out = append(out, f)
		}
	}
	return out
}

// Verify reads all of an image, every platform of it that the store has, and
// compares each blob with its digest, each unpacked file with its layer's blob,
// each link of the registry trees with its document. The faults are in the
// result; the error tells that it could not look.
func (s *Store) Verify(ctx context.Context, nameOrID string, o VerifyOptions) (*Verification, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	entry, err := find(idx, nameOrID)
	if err != nil {
		return nil, err
	}
	if o.Shared == nil {
		o.Shared = &Shared{}
	}
	if o.Shared.blobs == nil {
		*o.Shared = Shared{map[sizedBlob]error{}, map[digest.Digest][]Fault{}}
	}
	v := &verifier{s: s, o: o, blobsSeen: map[digest.Digest]bool{}, layersSeen: map[digest.Digest]bool{}, out: &Verification{}}
	if err := v.image(ctx, entry); err != nil {
		return v.out, fmt.Errorf("verify %s: %w", nameOrID, err)
	}
	return v.out, nil
}

type verifier struct {
	s          *Store
	o          VerifyOptions
	blobsSeen  map[digest.Digest]bool
	layersSeen map[digest.Digest]bool   // by ID: a registry layer's is also its document's digest
	derived    map[digest.Digest][]byte // blobs of the image at hand that follow from others
	out        *Verification
}

func (v *verifier) fault(what string, err error, repaired bool) {
	v.out.Faults = append(v.out.Faults, Fault{what, err, repaired})
}

// image verifies top down, so that a manifest is repaired before the blobs that it names.
func (v *verifier) image(ctx context.Context, entry ocispec.Descriptor) error {
	if ok, err := v.blobs(ctx, entry); err != nil || !ok {
		return err
	}
	manifests, _, err := v.s.manifests(ctx, entry)
	if err != nil {
		v.fault("blob "+entry.Digest.String(), err, false)
		return nil
	}
	for _, m := range manifests {
		if ok, err := v.blobs(ctx, m); err != nil {
			return err
		} else if !ok {
			continue
		}
		var man ocispec.Manifest
		if err := v.s.readJSON(ctx, m, maxManifest, &man); err != nil {
			v.fault("manifest "+m.Digest.String(), err, false)
			continue
		}
		if ok, err := v.blobs(ctx, append([]ocispec.Descriptor{man.Config}, man.Layers...)...); err != nil {
			return err
		} else if !ok {
			continue // its layers cannot be right
		}
		if ok, err := v.apart(ctx, &man); err != nil {
			return err
		} else if !ok {
			continue
		}
		img, err := v.s.readImage(ctx, m)
		if err != nil {
			v.fault("manifest "+m.Digest.String(), err, false)
			continue
		}
		if err := v.layers(ctx, img); err != nil {
			return err
		}
	}
	return nil
}

// blobs compares the digests of blobs, several at a time, and reports whether
// all are good, or good again.
func (v *verifier) blobs(ctx context.Context, all ...ocispec.Descriptor) (bool, error) {
	var list []ocispec.Descriptor
	for _, d := range all {
		if err := checkDigest(d.Digest); err != nil {
			v.fault("blob "+d.Digest.String(), err, false)
			return false, nil
		}
		if !v.blobsSeen[d.Digest] {
			v.blobsSeen[d.Digest] = true
			list = append(list, d)
		}
	}
	errs := make([]error, len(list))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, d := range list {
		if err, read := v.o.Shared.blobs[sizedBlob{d.Digest, d.Size}]; read {
			errs[i] = err
			continue
		}
		g.Go(func() error {
			errs[i] = v.s.checkSized(d)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	good := true
	for i, d := range list {
		v.out.Blobs++
		v.out.Bytes += d.Size
		shared := sizedBlob{d.Digest, d.Size}
		v.o.Shared.blobs[shared] = errs[i]
		if errs[i] == nil {
			continue
		}
		repaired := false
		if v.o.Repair != nil {
			err := v.s.replaceBlob(ctx, d, func(w io.Writer) error { return v.repair(ctx, d, w) })
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			if repaired = err == nil; err != nil {
				errs[i] = fmt.Errorf("%w; not repaired: %w", errs[i], err)
			} else {
				v.o.Shared.blobs[shared] = nil
			}
		}
		v.fault("blob "+d.Digest.String(), errs[i], repaired)
		good = good && repaired
	}
	return good, nil
}

// checkSized compares size and digest of a blob.
func (s *Store) checkSized(desc ocispec.Descriptor) error {
	fi, err := os.Stat(s.BlobPath(desc.Digest))
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	if fi.Size() != desc.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrMismatch, fi.Size(), desc.Size)
	}
	return s.checkBlob(desc.Digest)
}

// replaceBlob writes a blob though there is one, and makes the registry trees
// link to the new one.
func (s *Store) replaceBlob(ctx context.Context, desc ocispec.Descriptor, write func(io.Writer) error) error {
	if err := s.putBlob(ctx, desc, func() bool { return s.checkSized(desc) == nil }, write); err != nil {
		return err
	}
	return s.relinkAll(desc.Digest)
}

// relinkAll makes all registry trees link to the blob d that is there now.
func (s *Store) relinkAll(d digest.Digest) error {
	layers, err := os.ReadDir(s.path("data/overlay2"))
	if err != nil {
		return err
	}
	for _, l := range layers {
		if err := s.relinkBlob(s.path("data/overlay2", l.Name()), d); err != nil {
			return err
		}
	}
	return nil
}

// layers compares the unpacked layers of an image, whose blobs are good.
func (v *verifier) layers(ctx context.Context, img *Image) error {
	docs := img.Documents
	for _, l := range img.Layers {
		var doc *tree.Document
		if l.IsRegistry() {
			doc, docs = docs[0], docs[1:]
		}
		if v.layersSeen[l.ID] {
			continue
		}
		v.layersSeen[l.ID] = true
		v.out.Layers++
		if faults, read := v.o.Shared.layers[l.ID]; read {
			v.out.Faults = append(v.out.Faults, faults...)
			continue
		}
		if _, err := os.Stat(v.s.LayerDir(l.ID)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err // not missing, but not to be read
		}
		var faults []Fault
		var err error
		if doc != nil {
			faults = v.tree(l.ID, doc)
		} else {
			faults, err = v.files(ctx, l)
		}
		if err != nil {
			return err
		}
		if len(faults) > 0 && v.o.Repair != nil {
			if err := v.remake(ctx, l, doc); err != nil {
				return fmt.Errorf("layer %s: %w", l.ID, err)
			}
			for i := range faults {
				faults[i].Repaired = true
			}
			v.o.Shared.layers[l.ID] = nil
		} else {
			v.o.Shared.layers[l.ID] = faults
		}
		v.out.Faults = append(v.out.Faults, faults...)
	}
	return nil
}

// files compares the unpacked files of a rootfs layer with its blob.
func (v *verifier) files(ctx context.Context, l image.Layer) ([]Fault, error) {
	name := "layer " + l.ID.String()
	if !v.s.hasLayer(l.ID) {
		return []Fault{{What: name, Err: ErrNotFound}}, nil
	}
	blob, err := v.s.OpenBlob(ctx, l.Descriptors[0].Digest)
	if err != nil {
		return []Fault{{What: name, Err: err}}, nil
	}
	defer blob.Close()
	differences, err := layer.Compare(ctx, v.s.LayerDir(l.ID), blob, v.s.o.Limits.Layer)
	var faults []Fault
	for _, d := range differences {
		faults = append(faults, Fault{What: name + ": " + d.Path, Err: d.Err})
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrPermission) {
		faults, err = append(faults, Fault{What: name, Err: err}), nil
	}
	return faults, err
}

// remake unpacks a layer again in the place of the one that is there.
func (v *verifier) remake(ctx context.Context, l image.Layer, doc *tree.Document) error {
	if err := v.s.Hold(ctx); err != nil {
		return err
	}
	if v.s.hasLayer(l.ID) {
		if err := v.s.take(Garbage{Kind: "layer", Path: v.s.LayerDir(l.ID)}); err != nil {
			return err
		}
	}
	for _, userxattr := range []bool{false, true} {
		if err := layer.Remove(v.s.path(overlayDir(userxattr), l.ID.Encoded())); err != nil {
			return err
		}
	}
	if doc != nil {
		return v.s.unpackRegistry(ctx, l.ID, doc)
	}
	return v.s.unpackBlob(ctx, l)
}

// tree compares the registry tree of a layer with its document.
func (v *verifier) tree(id digest.Digest, doc *tree.Document) []Fault {
	dir := v.s.LayerDir(id)
	var faults []Fault
	fault := func(path string, err error) {
		faults = append(faults, Fault{What: fmt.Sprintf("layer %s: %s", id, path), Err: err})
	}
	if !v.s.hasLayer(id) {
		if mayLackTree(doc) {
			return nil // its blobs were compared
		}
		return []Fault{{What: "layer " + id.String(), Err: ErrNotFound}}
	}
	for _, f := range tree.VerifyLinks(dir, doc) {
		fault(f.Path, f.Err)
	}
	for _, b := range doc.Blobs {
		path := filepath.Join(tree.Root, tree.BlobPath(b.Digest))
		have, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			fault(path, err)
			continue
		}
		want, err := os.Lstat(v.s.BlobPath(b.Digest))
		if err != nil || !os.SameFile(have, want) {
			fault(path, fmt.Errorf("%w: it is no hard link to the blob", ErrMismatch))
		}
	}
	return faults
}
