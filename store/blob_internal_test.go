package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/platform"
)

// A writer that makes an error of its own out of the disk's does not hide that.
func TestDiskErrorIsKept(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset")
	if err := cmpDisk(nil, cut); err != cut {
		t.Errorf("a good disk: %v", err)
	}
	if err := cmpDisk(syscall.ENOSPC, cut); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, cut) {
		t.Errorf("a full disk: %v", err)
	}
	if err := cmpDisk(syscall.ENOSPC, syscall.ENOSPC); err.Error() != syscall.ENOSPC.Error() {
		t.Errorf("it is said twice: %v", err)
	}
}

// The blobs of a mirrored image are those of all its platforms that are here.
func TestBlobsOfAnIndex(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	want := map[digest.Digest]int64{}
	put := func(mediaType string, v any) ocispec.Descriptor {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.putBytes(t.Context(), mediaType, b)
		if err != nil {
			t.Fatal(err)
		}
		want[d.Digest] = d.Size
		return d
	}
	idx := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	for _, arch := range []string{"amd64", "arm64", "s390x"} {
		idx.Manifests = append(idx.Manifests, put(ocispec.MediaTypeImageManifest, ocispec.Manifest{
			Config: put(ocispec.MediaTypeImageConfig, "config of "+arch),
			Layers: []ocispec.Descriptor{put(ocispec.MediaTypeImageLayer, "layer of "+arch), {Digest: digest.FromString("not here"), Size: 8}},
		}))
	}
	idx.Manifests = append(idx.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("not mirrored"), Size: 8})
	top := put(ocispec.MediaTypeImageIndex, idx)
	got := map[digest.Digest]int64{}
	if err := s.blobsOf(t.Context(), top.Digest, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	bad := put(ocispec.MediaTypeImageIndex, ocispec.Index{Manifests: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest, Digest: "sha256:short"}}})
	if err := s.blobsOf(t.Context(), bad.Digest, got); !errors.Is(err, ErrInvalid) {
		t.Errorf("a manifest of a wrong digest: %v", err)
	}
}

// Pieces of a layer are reused where both layers are compressed with zstd.
func TestLikeBlob(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	img := builtImage(t, s)
	like := img.Layers[0]
	other := like
	other.Descriptors = slices.Clone(like.Descriptors)
	other.Descriptors[0].MediaType = ocispec.MediaTypeImageLayerGzip
	gone := like
	gone.Descriptors = slices.Clone(like.Descriptors)
	gone.Descriptors[0].Digest = digest.FromString("gone")
	for name, tc := range map[string]struct {
		o    LayerOptions
		used bool
	}{
		"both":         {LayerOptions{Like: like}, true},
		"written":      {LayerOptions{Like: like, Compression: layer.CompressionZstd}, true},
		"the new gzip": {LayerOptions{Like: like, Compression: layer.CompressionGzip}, false},
		"the new none": {LayerOptions{Like: like, Compression: layer.CompressionNone}, false},
		"the old gzip": {LayerOptions{Like: other}, false},
		"the old gone": {LayerOptions{Like: gone}, false},
	} {
		f := s.likeBlob(tc.o)
		if (f != nil) != tc.used {
			t.Errorf("%s: used %v, want %v", name, f != nil, tc.used)
		}
		if f != nil {
			_ = f.Close()
		}
	}
}

// A layer that cannot be put in its place is an error, unless another process has
// put it there.
func TestPublishDirFails(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	img := builtImage(t, s)
	lost := s.path("tmp", "lost")
	if err := s.publishDir(t.Context(), lost, digest.FromString("new")); err == nil {
		t.Error("a directory that is gone was published")
	}
	if err := s.publishDir(t.Context(), lost, img.Layers[0].ID); err != nil {
		t.Errorf("the layer is there: %v", err)
	}
}

// A manifest that no registry takes is told when it is made.
func TestManifestTooLargeForRegistries(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := Open(t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := image.Config{Platform: platform.Default(), Layers: []image.ConfigLayer{{Type: "COPY"}}}
	var l image.Layer
	for i := range 4 {
		l.Descriptors = append(l.Descriptors, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString(string(rune('a' + i))), Size: 1})
	}
	for more, warned := range map[int]bool{registryManifest / 2: false, registryManifest * 3 / 2: true} {
		log.Reset()
		if _, err := s.WriteImage(t.Context(), c, []image.Layer{l}, map[string]string{"text": strings.Repeat("x", more)}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "registries take 4194304"); got != warned {
			t.Errorf("%d bytes: warned %v, want %v: %s", more, got, warned, log.String())
		}
	}
}
