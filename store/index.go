package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// annotationBuilt and annotationAdded are annotations of an entry of
	// index.json: when the image was built here, and when it was built here or
	// came here.
	annotationBuilt = "io.sealer.image.built"
	annotationAdded = "io.sealer.image.added"

	layoutContent = `{"imageLayoutVersion":"1.0.0"}`
)

// maxIndex bounds index.json: about 200,000 images.
const maxIndex = 64 << 20

// readFile reads a file of at most that many bytes. A link to /dev/zero has no end.
func readFile(path string, most int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fmt.Errorf("read %s: %w: it has more than %d bytes", path, ErrInvalid, most)
	}
	return b, err
}

// readIndex reads index.json, which is whole at any time. No index.json means an
// empty store only if oci-layout is missing too. Otherwise the index was lost, and
// prune would delete every blob.
func (s *Store) readIndex() (*ocispec.Index, error) {
	if err := s.checkLayout(); err != nil {
		return nil, err
	}
	path := s.path("image", ocispec.ImageIndexFile)
	b, err := readFile(path, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		layout := s.path("image", ocispec.ImageLayoutFile)
		if _, err := os.Lstat(layout); err == nil {
			return nil, fmt.Errorf("read images: %w: %s is gone, which names all images: bring it back, or remove %s to begin with an empty store", ErrInvalid, path, layout)
		}
		return newIndex(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read images: %w", err)
	}
	idx := newIndex()
	idx.Manifests = nil
	if err := json.Unmarshal(b, idx); err != nil {
		return nil, fmt.Errorf("read images: %s: %w: %w", path, ErrInvalid, err)
	}
	if idx.Manifests == nil { // "null", "{}": not an empty store, whose blobs prune would take
		return nil, fmt.Errorf("read images: %s: %w: it has no list of images: bring back the file, or remove image/ to begin with an empty store", path, ErrInvalid)
	}
	for _, d := range idx.Manifests {
		if err := checkDigest(d.Digest); err != nil {
			return nil, fmt.Errorf("read images: %s: %w", path, err)
		}
	}
	return idx, nil
}

// IndexInfo describes the file that lists the images, which is another file after
// each change of a name or an image. It is nil in an empty store.
func (s *Store) IndexInfo() os.FileInfo {
	fi, err := os.Stat(s.path("image", ocispec.ImageIndexFile))
	if err != nil {
		return nil
	}
	return fi
}

// checkLayout refuses a store whose layout a later sealer, or something else,
// has written: it would be read wrong, and spoilt by the next write.
func (s *Store) checkLayout() error {
	path := s.path("image", ocispec.ImageLayoutFile)
	b, err := readFile(path, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the next write makes it
	}
	if err != nil {
		return fmt.Errorf("read images: %w", err)
	}
	var layout ocispec.ImageLayout
	if err := json.Unmarshal(b, &layout); err != nil {
		return fmt.Errorf("read images: %s: %w: %w", path, ErrInvalid, err)
	}
	if layout.Version != ocispec.ImageLayoutVersion {
		return fmt.Errorf("read images: %s: %w: its layout has version %q, this sealer knows %s", path, ErrInvalid, layout.Version, ocispec.ImageLayoutVersion)
	}
	return nil
}

func newIndex() *ocispec.Index {
	return &ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{},
	}
}

// updateIndex lets change change index.json while no other process does, and
// replaces it in one step, flushed.
func (s *Store) updateIndex(ctx context.Context, change func(*ocispec.Index) error) (err error) {
	if err := s.makeDirs(); err != nil {
		return fmt.Errorf("write to store %s: %w", s.root, err)
	}
	lock, err := s.lock(ctx, "index", true)
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	idx, err := s.readIndex()
	if err != nil {
		return err
	}
	if err := change(idx); err != nil {
		return err
	}
	slices.SortStableFunc(idx.Manifests, func(a, b ocispec.Descriptor) int {
		return strings.Compare(nameOf(a), nameOf(b))
	})
	b, err := json.MarshalIndent(idx, "", "  ")
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	for _, f := range []struct { // in this order: a layout without an index tells that the index was lost
		name    string
		content []byte
	}{{ocispec.ImageIndexFile, b}, {ocispec.ImageLayoutFile, []byte(layoutContent)}} {
		if err := s.replaceFile(ctx, s.path("image", f.name), f.content); err != nil {
			return fmt.Errorf("write images: %w", err)
		}
	}
	return nil
}

// replaceFile puts a small file in its place in one step, flushed.
func (s *Store) replaceFile(ctx context.Context, path string, content []byte) (err error) {
	if have, err := os.ReadFile(path); err == nil && string(have) == string(content) {
		return nil
	}
	return s.writeFile(ctx, path, content)
}

// writeFile puts a small file in its place in one step, flushed. When the name
// could not be flushed, the next commit writes the file again.
func (s *Store) writeFile(ctx context.Context, path string, content []byte) (err error) {
	f, err := s.tempFile(ctx, "file")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(f)) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := s.syncDir(filepath.Dir(path)); err != nil {
		s.failed(nil)
		return err
	}
	return nil
}

// nameOf returns the name of an entry of index.json, "" when it has none.
func nameOf(d ocispec.Descriptor) string { return d.Annotations[ocispec.AnnotationRefName] }

// times are when an image was built here, zero for one that came from elsewhere,
// and when it was built here or came here.
type times struct{ built, added time.Time }

// timesOf returns the times of an entry of index.json. Earlier versions noted
// one time.
func timesOf(d ocispec.Descriptor) times {
	parse := func(key string) time.Time {
		t, err := time.Parse(time.RFC3339Nano, d.Annotations[key])
		if err != nil {
			return time.Time{}
		}
		return t
	}
	t := times{parse(annotationBuilt), parse(annotationAdded)}
	if t.added.IsZero() {
		t.added = t.built
	}
	return t
}

// setName makes name point at desc: "" adds desc unless it is there. Its entry
// without a name goes when it gets one. The times of desc are kept when it is
// there already; one that came and is built here now was built now.
func setName(idx *ocispec.Index, name string, desc ocispec.Descriptor, now times) {
	known := false
	signatures, _ := signaturesIn(desc) // of an archive; a damaged list is none
	for _, d := range idx.Manifests {
		if d.Digest == desc.Digest {
			known = true
			list, _ := signaturesIn(d)
			signatures = append(signatures, list...)
			if t := timesOf(d); !t.added.IsZero() {
				now.added = t.added
				if !t.built.IsZero() {
					now.built = t.built
				}
			}
		}
	}
	if name == "" && known {
		for i := range idx.Manifests {
			if idx.Manifests[i].Digest == desc.Digest {
				_ = addSignatures(&idx.Manifests[i], signatures) // fails for no list that was read
			}
		}
		return
	}
	idx.Manifests = slices.DeleteFunc(idx.Manifests, func(d ocispec.Descriptor) bool {
		return nameOf(d) == name && name != "" || nameOf(d) == "" && d.Digest == desc.Digest
	})
	entry := ocispec.Descriptor{
		MediaType: desc.MediaType, ArtifactType: desc.ArtifactType, Digest: desc.Digest, Size: desc.Size, Platform: desc.Platform,
		Annotations: map[string]string{annotationAdded: now.added.UTC().Format(time.RFC3339Nano)},
	}
	if !now.built.IsZero() {
		entry.Annotations[annotationBuilt] = now.built.UTC().Format(time.RFC3339Nano)
	}
	if name != "" {
		entry.Annotations[ocispec.AnnotationRefName] = name
	}
	_ = addSignatures(&entry, signatures)
	idx.Manifests = append(idx.Manifests, entry)
}
