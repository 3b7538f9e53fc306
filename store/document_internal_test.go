package store

import (
	"errors"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// TestDocumentTooLong reads a registry layer document of one byte too many: it is
// refused before it is read, by its length.
func TestDocumentTooLong(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	b := make([]byte, maxDocument+1)
	desc := ocispec.Descriptor{MediaType: tree.MediaTypeDocument, Digest: digest.FromBytes(b), Size: int64(len(b))}
	if err := s.PutBlob(t.Context(), desc, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.readDocument(t.Context(), desc); !errors.Is(err, ErrInvalid) || !errors.Is(err, errLongDocument) {
		t.Errorf("readDocument: %v, want %v", err, errLongDocument)
	}
}
