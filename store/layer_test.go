package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/store"
)

func TestRootfs(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	ids := []digest.Digest{
		addLayer(t, s, file("etc/a", "1"), file("etc/b", "1")).ID,
		addLayer(t, s, file("etc/a", "2"), file("etc/.wh.b", "")).ID,
	}
	r, err := s.Rootfs(ids)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff(map[string]string{"etc/a": "2"}, content(t, r)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Rootfs([]digest.Digest{digest.FromString("no layer")}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no layer: %v", err)
	}
}

func TestWriteLayerCompressions(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("some text that repeats "), 600_000) // several pieces
	tarball := writeTar(file("big", string(big)), file("small", "x"), entry{name: "empty/"})
	var ids []digest.Digest
	for _, c := range []string{layer.CompressionZstd, layer.CompressionGzip, layer.CompressionNone} {
		from := open(t, t.TempDir())
		l, err := from.WriteLayer(t.Context(), store.LayerOptions{Compression: c}, tarball)
		if err != nil {
			t.Fatal(err)
		}
		if l.Size != int64(len(big))+1 {
			t.Errorf("%s: size %d", c, l.Size)
		}
		ids = append(ids, l.ID)
		// What is unpacked on the way in is what the blob unpacks to.
		d := write(t, from, "amd64", l)
		if err := from.Commit(t.Context(), names(t, "a"), d); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(from.LayerDir(l.ID)); err != nil {
			t.Fatal(err)
		}
		if err := from.Commit(t.Context(), names(t, "a"), d); err != nil {
			t.Fatal(err)
		}
		if got := content(t, os.DirFS(from.LayerDir(l.ID))); got["big"] != string(big) || got["small"] != "x" {
			t.Errorf("%s: unpacked otherwise", c)
		}
	}
	if len(slices.Compact(slices.Clone(ids))) != 1 {
		t.Errorf("IDs differ with the compression: %v", ids)
	}
	if _, err := open(t, t.TempDir()).WriteLayer(t.Context(), store.LayerOptions{Compression: "rar"}, tarball); err == nil {
		t.Error("rar")
	}
}

func TestWriteLayerFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("source broke")
	for name, tc := range map[string]struct {
		write func(io.Writer) error
		want  error
	}{
		"source":    {func(w io.Writer) error { _ = writeTar(file("a", "1"))(w); return broken }, broken},
		"cut":       {func(w io.Writer) error { _, err := w.Write(make([]byte, 100)); return err }, store.ErrInvalid},
		"no tar":    {func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte("x"), 2048)); return err }, store.ErrInvalid},
		"cancelled": {func(w io.Writer) error { return context.Canceled }, context.Canceled},
		"endless": {func(w io.Writer) error { // the tar is refused long before its end
			if err := writeTar(file("../x", "1"))(w); err != nil {
				return err
			}
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return fmt.Errorf("write: %w", err)
				}
			}
		}, store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			if _, err := s.WriteLayer(t.Context(), store.LayerOptions{}, tc.write); !errors.Is(err, tc.want) {
				t.Errorf("WriteLayer: %v, want %v", err, tc.want)
			}
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}
