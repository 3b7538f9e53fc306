package store

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/layer"
)

// A delta is an OCI image layout without the blobs that the far side has. Its
// index.json says so: annotationDelta is the digest of an inventory of them,
// which stands in the layout as a blob, the first one of the tar.
const annotationDelta = "io.sealer.delta.without"

// ErrLacks is wrapped by the error of Load about a delta whose other blobs the
// store does not have.
var ErrLacks = errors.New("this store lacks what the delta builds on")

// leaveOut removes from blobs those of without, and returns the files that tell a
// reader of them, which idx names.
func (s *Store) leaveOut(idx *ocispec.Index, blobs map[digest.Digest]int64, without inventory.Set) ([]layoutFile, Saved, error) {
	var count Saved
	var left inventory.Inventory
	for d, size := range blobs {
		if !without.Has(d, size) {
			count.Blobs++
			count.Bytes += size
			continue
		}
		left.Blobs = append(left.Blobs, inventory.Blob{Digest: d, Size: size})
		delete(blobs, d)
	}
	if len(left.Blobs) == 0 {
		return nil, count, nil
	}
	count.LeftOutBlobs, count.LeftOutBytes = int64(len(left.Blobs)), left.Size()
	b, err := left.Encode()
	if err != nil {
		return nil, count, err
	}
	d := digest.FromBytes(b)
	idx.Annotations = map[string]string{annotationDelta: d.String()}
	return []layoutFile{{blobDir + d.Encoded(), b}}, count, nil
}

// leftOut returns the digest of the list of the blobs that were left out of a, ""
// when a is no delta or its index.json was not read yet.
func (a *archive) leftOut() digest.Digest {
	if a.index == nil {
		return ""
	}
	return digest.Digest(a.index.Annotations[annotationDelta])
}

// checkDelta reads that list, desc, from r and refuses the delta where the store
// lacks a blob of it. The list is not kept. It comes before the blobs of the tar, so
// that no gigabyte is read in vain.
func (a *archive) checkDelta(desc ocispec.Descriptor, r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, inventory.MaxSize))
	if err != nil {
		return layer.TarError(err)
	}
	if got := digest.FromBytes(b); got != desc.Digest {
		return fmt.Errorf("%w: its digest is %s", ErrMismatch, got)
	}
	a.completes = true
	return a.s.checkLeftOut(b)
}

// checkLeftOut reports the blobs of the inventory b that the store lacks.
func (s *Store) checkLeftOut(b []byte) error {
	left, err := inventory.Parse(b)
	if err != nil {
		return fmt.Errorf("list of the blobs that were left out: %w: %w", ErrInvalid, err)
	}
	var missing inventory.Inventory
	for _, b := range left.Blobs {
		if !s.hasSized(ocispec.Descriptor{Digest: b.Digest, Size: b.Size}) {
			missing.Blobs = append(missing.Blobs, b)
		}
	}
	if len(missing.Blobs) == 0 {
		return nil
	}
	const named = 3
	var first []string
	for _, b := range missing.Blobs[:min(named, len(missing.Blobs))] {
		first = append(first, b.Digest.String())
	}
	if more := len(missing.Blobs) - named; more > 0 {
		first = append(first, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %d of the %d blobs that were left out, %d bytes: %s",
		ErrLacks, len(missing.Blobs), len(left.Blobs), missing.Size(), strings.Join(first, ", "))
}

// ReadArchiveInventory lists the blobs that a store has after Load of the archive
// r: those in it and, of a delta, those that were left out. The blobs are not
// hashed. Of a delta, index.json must come before the blobs, as Save writes it. The
// error wraps ErrInvalid when r is no OCI image layout.
func ReadArchiveInventory(ctx context.Context, r io.Reader) (*inventory.Inventory, error) {
	plain, err := layer.Decompress(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	out := &inventory.Inventory{}
	var idx *ocispec.Index
	tr := tar.NewReader(plain)
	var list []byte // the inventory of a delta
	for {
		h, err := tr.Next()
		if err == io.EOF {
			if _, err := io.Copy(io.Discard, plain); err != nil { // the end of an encryption is its seal
				return nil, layer.TarError(err)
			}
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, layer.TarError(err)
		}
		m := blobEntry.FindStringSubmatch(h.Name)
		switch {
		case h.Typeflag != tar.TypeReg:
		case m != nil:
			d := digest.NewDigestFromEncoded(digest.SHA256, m[2])
			out.Blobs = append(out.Blobs, inventory.Blob{Digest: d, Size: h.Size})
			if idx == nil || idx.Annotations[annotationDelta] != d.String() {
				continue
			}
			if list, err = io.ReadAll(io.LimitReader(tr, inventory.MaxSize)); err != nil {
				return nil, layer.TarError(err)
			}
		case strings.TrimPrefix(h.Name, "./") == ocispec.ImageIndexFile && h.Size <= maxManifest:
			idx = newIndex()
			if err := json.NewDecoder(tr).Decode(idx); err != nil {
				return nil, fmt.Errorf("%w: index.json: %w", ErrInvalid, err)
			}
		}
	}
	if idx == nil {
		return nil, fmt.Errorf("%w: it has no index.json, so it is no OCI image layout", ErrInvalid)
	}
	d := idx.Annotations[annotationDelta]
	if d == "" {
		return out, nil
	}
	out.Blobs = slices.DeleteFunc(out.Blobs, func(b inventory.Blob) bool { return b.Digest.String() == d })
	left, err := inventory.Parse(list)
	if err == nil && digest.FromBytes(list).String() != d {
		err = ErrMismatch
	}
	if err != nil {
		return nil, fmt.Errorf("list of the blobs that were left out: %w: %w", ErrInvalid, err)
	}
	out.Blobs = append(out.Blobs, left.Blobs...)
	return out, nil
}
