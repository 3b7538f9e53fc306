package store_test

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/store"
)

// TestUnpackAttributes unpacks attributes that users may have, and such that
// would change what overlayfs shows.
func TestUnpackAttributes(t *testing.T) {
	t.Parallel()
	s, check := outside(t)
	l, err := s.WriteLayer(t.Context(), store.LayerOptions{}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "f", Mode: 0o644, PAXRecords: map[string]string{}}
		for _, name := range []string{"user.note", "user.overlay.redirect", "trusted.overlay.redirect", "trusted.x", "security.selinux"} {
			h.PAXRecords[layer.AttributeRecord+name] = "/etc"
		}
		return errors.Join(tw.WriteHeader(h), tw.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	check(t)
	file := filepath.Join(s.LayerDir(l.ID), "f")
	buf := make([]byte, 4096)
	n, err := unix.Listxattr(file, buf)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		t.Skip("the file system has no attributes of users")
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if name != "security.selinux" { // the machine's own
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"user.note"}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}
