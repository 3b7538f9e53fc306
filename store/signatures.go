package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/sign"
)

// annotationSignatures is an annotation of an entry of index.json, of the store and
// of an archive: the signatures of the image itself, JSON. They are not checked
// here.
const annotationSignatures = "io.sealer.signatures"

// maxSignatures bounds the bytes of the signatures of one image.
const maxSignatures = 256 << 10

// signaturesIn returns the signatures in an entry of index.json.
func signaturesIn(d ocispec.Descriptor) ([]sign.Signature, error) {
	text := d.Annotations[annotationSignatures]
	if text == "" {
		return nil, nil
	}
	if len(text) > maxSignatures {
		return nil, fmt.Errorf("signatures of %s: %w: %d bytes", d.Digest, ErrInvalid, len(text))
	}
	var list []sign.Signature
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("signatures of %s: %w: %w", d.Digest, ErrInvalid, err)
	}
	return list, nil
}

// addSignatures puts signatures into an entry of index.json, each once. Those that
// would be too many are left out.
func addSignatures(d *ocispec.Descriptor, list []sign.Signature) error {
	have, err := signaturesIn(*d)
	if err != nil {
		have = nil // a damaged list is replaced
	}
	var text []byte
	for _, s := range list {
		if slices.ContainsFunc(have, func(h sign.Signature) bool {
			return h.Signature == s.Signature && string(h.Payload) == string(s.Payload)
		}) {
			continue
		}
		more := append(slices.Clip(have), s)
		b, err := json.Marshal(more)
		if err != nil {
			return err
		}
		if len(b) > maxSignatures {
			break
		}
		have, text = more, b
	}
	if text == nil {
		return nil
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[annotationSignatures] = string(text)
	return nil
}

// AddSignatures keeps signatures of the image d, which Save writes and Load brings.
// The error wraps ErrNotFound where the store has no such image.
func (s *Store) AddSignatures(ctx context.Context, d digest.Digest, list []sign.Signature) error {
	if len(list) == 0 {
		return nil
	}
	return s.updateIndex(ctx, func(idx *ocispec.Index) error {
		found := false
		for i := range idx.Manifests {
			if e := &idx.Manifests[i]; e.Digest == d {
				found = true
				if err := addSignatures(e, list); err != nil {
					return fmt.Errorf("keep signatures: %w", err)
				}
			}
		}
		if !found {
			return fmt.Errorf("keep signatures of %s: %w", d, ErrNotFound)
		}
		return nil
	})
}

// Signatures returns the descriptor of an image and the signatures that the store
// has of it, from index.json alone.
func (s *Store) Signatures(nameOrID string) (ocispec.Descriptor, []sign.Signature, error) {
	idx, err := s.readIndex()
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	d, err := find(idx, nameOrID)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	list, err := signaturesIn(d)
	return d, list, err
}
