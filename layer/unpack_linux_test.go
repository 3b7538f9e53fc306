package layer

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestUnpackAttributes unpacks attributes that users may have, and such that
// would change the content that overlayfs shows.
func TestUnpackAttributes(t *testing.T) {
	t.Parallel()
	l, err := write(t, Options{}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		records := map[string]string{"VENDOR.user.x": "y"}
		for _, name := range []string{"user.note", "user.overlay.redirect", "trusted.overlay.redirect", "trusted.x", "security.selinux"} {
			records[AttributeRecord+name] = "/etc"
		}
		return errors.Join(
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755, PAXRecords: records}),
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Mode: 0o644, PAXRecords: records}),
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "none", Mode: 0o644}),
			tw.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	probe := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(probe, "user.x", nil, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no attributes of users")
	}
	for name, want := range map[string]map[string]string{"d": {"user.note": "/etc"}, "d/f": {"user.note": "/etc"}, "none": nil} {
		got, err := Attributes(open(t, filepath.Join(l.dir, name)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: attributes (-want +got):\n%s", name, diff)
		}
		for _, hidden := range []string{"user.overlay.redirect", "trusted.overlay.redirect", "trusted.x"} {
			if n, err := unix.Getxattr(filepath.Join(l.dir, name), hidden, nil); err == nil {
				t.Errorf("%s has %s of %d bytes", name, hidden, n)
			}
		}
	}
	closed := open(t, probe)
	closed.Close()
	if err := setAttributes(closed, map[string]string{AttributeRecord + "user.x": "y"}); err == nil {
		t.Error("an attribute of a closed file")
	}
}

// TestDevices unpacks device nodes and fifos where root asks for it.
func TestDevices(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || InUserNamespace() {
		t.Skip("only root may make device nodes")
	}
	l, err := write(t, Options{Devices: true}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		return errors.Join(
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: "null", Mode: 0o666, Devmajor: 1, Devminor: 3}),
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeBlock, Name: "d/disk", Mode: 0o600, Devmajor: 7, Devminor: 200}),
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o640}),
			tw.Close())
	})
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("this machine gives no device nodes: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		mode fs.FileMode
		dev  uint64
	}{
		"null":   {fs.ModeDevice | fs.ModeCharDevice | 0o666, unix.Mkdev(1, 3)},
		"d/disk": {fs.ModeDevice | 0o600, unix.Mkdev(7, 200)},
		"fifo":   {fs.ModeNamedPipe | 0o640, 0},
	} {
		fi := mustStat(t, filepath.Join(l.dir, name))
		if st := fi.Sys().(*syscall.Stat_t); fi.Mode() != want.mode || st.Rdev != want.dev {
			t.Errorf("%s: %v, %d; want %v, %d", name, fi.Mode(), st.Rdev, want.mode, want.dev)
		}
	}
	if differences, err := Compare(t.Context(), l.dir, open(t, l.blob), Limits{}); err != nil || len(differences) > 0 {
		t.Errorf("Compare: %v, %v", differences, err)
	}
}
