package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// The tree of a registry layer takes a block of the file system for each of its
// directories and links: 56 MB for 500 images, however little differs from the
// layer of the version before. So a large tree whose blobs are mostly in the trees
// of other layers is not written with its layer. The document says all that is in
// it; Tree writes it for those who need files: mount, RUN, export.

// writtenAlways is the Document.Weight up to which the tree is written in any case:
// 2 MiB in blocks of 4 KiB, about 20 images.
const writtenAlways = 512

// writesTree reports whether the tree of doc is written with its layer.
func (s *Store) writesTree(doc *tree.Document) bool {
	if doc.Weight() <= writtenAlways {
		return true
	}
	elsewhere := 0
	for _, b := range doc.Blobs {
		if fi, err := os.Lstat(s.BlobPath(b.Digest)); err == nil && hasLinks(fi) {
			elsewhere++
		}
	}
	return elsewhere <= len(doc.Blobs)/2
}

// mayLackTree reports whether the tree of doc may be unwritten.
func mayLackTree(doc *tree.Document) bool { return doc.Weight() > writtenAlways }

// Tree returns the directory of the registry layer id, and writes its tree where
// that was not done. The error wraps ErrNotFound when the store lacks the layer.
func (s *Store) Tree(ctx context.Context, id digest.Digest) (dir string, err error) {
	if s.hasLayer(id) {
		return s.LayerDir(id), nil
	}
	doc, err := s.Document(ctx, id)
	if err != nil {
		return "", err
	}
	d := &RegistryDraft{ID: id, s: s, doc: doc}
	if err := d.write(ctx); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Discard()) }()
	return s.LayerDir(id), d.publish(ctx)
}

// Document returns the document of the registry layer id. The error wraps
// ErrNotFound when the store has no registry layer of that ID.
func (s *Store) Document(ctx context.Context, id digest.Digest) (*tree.Document, error) {
	fi, err := os.Stat(s.BlobPath(id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() > maxRead {
		return nil, fmt.Errorf("registry layer %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("registry layer %s: %w", id, err)
	}
	doc, err := s.readDocument(ctx, ocispec.Descriptor{Digest: id, Size: fi.Size()})
	if errors.Is(err, tree.ErrInvalid) { // the blob of a rootfs layer that is not compressed
		return nil, fmt.Errorf("registry layer %s: %w", id, ErrNotFound)
	}
	return doc, err
}

// HasTree reports whether the registry layer id with the document doc is whole: as
// far as its tree is written, each link and blob is there with its size.
func (s *Store) HasTree(id digest.Digest, doc *tree.Document) bool {
	if s.hasLayer(id) {
		return tree.Present(s.LayerDir(id), doc)
	}
	return mayLackTree(doc) && s.lacksBlob(doc) == nil
}

// lacksBlob returns an error for the first blob of doc that the store lacks.
func (s *Store) lacksBlob(doc *tree.Document) error {
	for _, b := range doc.Blobs {
		if !s.hasSized(ocispec.Descriptor{Digest: b.Digest, Size: b.Size}) {
			return fmt.Errorf("blob %s: %w", b.Digest, ErrNotFound)
		}
	}
	return nil
}

// IsUnwritten reports whether id is a registry layer of the store whose tree is
// not written. The blob of that digest is its document then.
func (s *Store) IsUnwritten(id digest.Digest) bool {
	if s.hasLayer(id) {
		return false
	}
	f, err := os.Open(s.BlobPath(id))
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(documentBegins))
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == documentBegins
}

// documentBegins tells a document, which has one form, from the tar of a rootfs
// layer that is not compressed.
const documentBegins = `{"schemaVersion":1,"repositories":[`
