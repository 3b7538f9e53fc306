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
	for limit, want := range map[int64]error{0: ErrLimit, maxDocument + 1: tree.ErrInvalid} {
		in := reader{dirs: s.dirs, document: Limits{Document: limit}.document()}
		if _, err := in.readDocument(t.Context(), desc); !errors.Is(err, want) {
			t.Errorf("readDocument with limit %d: %v, want %v", limit, err, want)
		}
	}
}
