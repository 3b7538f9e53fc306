package remote_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store/storetest"
)

// TestStagedIsBounded writes manifests to memory, in pieces.
func TestStagedIsBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const said = "manifest"
	for _, tc := range []struct {
		pieces []string
		taken  int // writes without an error
		ok     bool
	}{
		{[]string{"manifest"}, 1, true},
		{[]string{"mani", "fest"}, 2, true},
		{[]string{"mani"}, 1, false},
		{[]string{"mani", "fist"}, 2, false},
		{[]string{"mani", "feste"}, 1, false},
		{[]string{"manifest", "0"}, 1, false},
		{[]string{strings.Repeat("x", 9)}, 0, false},
	} {
		sink := &remote.Staged{Sink: s}
		taken := 0
		desc := ocispec.Descriptor{Digest: digest.FromString(said), Size: int64(len(said))}
		err := sink.PutBlob(t.Context(), desc, func(w io.Writer) error {
			for _, p := range tc.pieces {
				if _, err := io.WriteString(w, p); err != nil {
					return err
				}
				taken++
			}
			return nil
		})
		if taken != tc.taken || (err == nil) != tc.ok || err != nil && !errors.Is(err, remote.ErrDigest) {
			t.Errorf("%q: %d writes, %v", tc.pieces, taken, err)
		}
		has, err := sink.HasBlob(t.Context(), desc.Digest)
		if err != nil || has != tc.ok {
			t.Errorf("%q: has %t, %v", tc.pieces, has, err)
		}
		if b, err := sink.ReadBlob(t.Context(), desc.Digest, 100); (err == nil && slices.Equal(b, []byte(said))) != tc.ok {
			t.Errorf("%q: read %q, %v", tc.pieces, b, err)
		}
	}
}
