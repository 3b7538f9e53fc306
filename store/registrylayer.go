package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
)

// WriteRegistryLayer makes the registry layer of doc, whose blobs the store
// must have: the document's blob, and the tree in which each blob is a hard
// link. doc is sorted by it.
func (s *Store) WriteRegistryLayer(ctx context.Context, doc *tree.Document) (_ image.Layer, err error) {
	d, err := s.DraftRegistryLayer(ctx, doc)
	if err != nil {
		return image.Layer{}, err
	}
	defer func() { err = errors.Join(err, d.Discard()) }()
	return d.Commit(ctx)
}

// A RegistryDraft is a registry layer whose blobs may still be on their way.
type RegistryDraft struct {
	// ID is the ID that the layer will have.
	ID digest.Digest

	s       *Store
	doc     *tree.Document
	encoded []byte
	dir     *lockedDir // nil when the tree is there or is not written, and once it is discarded
}

// DraftRegistryLayer writes all of doc's registry layer that needs no blob. That
// is most of the work: some thousand directories and link files for a hundred
// images, which can be made while the blobs are fetched. doc is sorted by it.
// The caller calls Discard, after Commit too.
func (s *Store) DraftRegistryLayer(ctx context.Context, doc *tree.Document) (*RegistryDraft, error) {
	b, id, err := doc.Encode()
	if err != nil {
		return nil, fmt.Errorf("write registry layer: %w", err)
	}
	if most := s.o.Limits.document(); int64(len(b)) > most { // nobody could pull the image
		return nil, fmt.Errorf("write registry layer: %w", errLongDocument(most))
	}
	d := &RegistryDraft{ID: id, s: s, doc: doc, encoded: b}
	return d, d.prepare(ctx)
}

func (d *RegistryDraft) prepare(ctx context.Context) error {
	if d.s.hasLayer(d.ID) || !d.s.writesTree(d.doc) {
		return nil
	}
	return d.write(ctx)
}

// write writes all of the tree that needs no blob.
func (d *RegistryDraft) write(ctx context.Context) (err error) {
	if _, err := d.s.begin(ctx); err != nil {
		return err
	}
	if d.dir, err = d.s.tempDir("layer"); err != nil {
		return fmt.Errorf("registry layer %s: %w", d.ID, err)
	}
	if err := tree.Prepare(d.dir.Name(), d.doc); err != nil {
		return errors.Join(fmt.Errorf("registry layer %s: %w", d.ID, err), d.Discard())
	}
	return nil
}

// Commit makes the layer of the draft, whose blobs the store must have now. It
// is called once.
func (d *RegistryDraft) Commit(ctx context.Context) (image.Layer, error) {
	desc, err := d.s.putBytes(ctx, tree.MediaTypeDocument, d.encoded)
	if err != nil {
		return image.Layer{}, fmt.Errorf("write registry layer: %w", err)
	}
	if err := d.publish(ctx); err != nil {
		return image.Layer{}, err
	}
	return image.RegistryLayer(desc, d.doc), nil
}

// publish places the blobs and gives the layer its name.
func (d *RegistryDraft) publish(ctx context.Context) error {
	if err := d.s.lacksBlob(d.doc); err != nil {
		return fmt.Errorf("registry layer %s: %w", d.ID, err)
	}
	if d.dir == nil {
		return nil
	}
	err := tree.Place(d.dir.Name(), d.doc, func(blob digest.Digest, path string) error {
		return os.Link(d.s.BlobPath(blob), path)
	})
	if err != nil {
		return fmt.Errorf("registry layer %s: %w", d.ID, err)
	}
	return d.s.publishDir(ctx, d.dir.Name(), d.ID)
}

// Discard removes the draft's files that were not committed.
func (d *RegistryDraft) Discard() error {
	if d.dir == nil {
		return nil
	}
	dir := d.dir
	d.dir = nil
	return discard(dir)
}

// relink makes the registry tree of doc in dir link to the store's blobs.
func (s *Store) relink(dir string, doc *tree.Document) error {
	for _, b := range doc.Blobs {
		if err := s.relinkBlob(dir, b.Digest); err != nil {
			return fmt.Errorf("registry layer %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// relinkBlob makes the registry tree in dir, if it has the blob d, link to the
// file that the store has of it. A reader of the tree sees either.
func (s *Store) relinkBlob(dir string, d digest.Digest) (err error) {
	link := filepath.Join(dir, tree.Root, tree.BlobPath(d))
	have, err := os.Lstat(link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := os.Stat(s.BlobPath(d))
	if err != nil || os.SameFile(have, want) {
		return err
	}
	tmp, err := s.tempDir("relink")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(tmp)) }()
	to := filepath.Join(tmp.Name(), "l")
	if err := os.Link(s.BlobPath(d), to); err != nil {
		return err
	}
	return os.Rename(to, link)
}

// unpackRegistry makes the tree of a registry layer. One that is there is made to
// link to the blobs that the store has now: some may have been written again.
func (s *Store) unpackRegistry(ctx context.Context, id digest.Digest, doc *tree.Document) (err error) {
	if s.hasLayer(id) {
		return s.relink(s.LayerDir(id), doc)
	}
	d := &RegistryDraft{ID: id, s: s, doc: doc}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Discard()) }()
	return d.publish(ctx)
}
