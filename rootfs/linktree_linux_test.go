package rootfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/rootfs"
)

// attribute returns an extended attribute, "" when the file has none.
func attribute(path, name string) string {
	buf := make([]byte, 100)
	n, err := unix.Lgetxattr(path, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// shape tells the form of each entry below dir.
func shape(t *testing.T, from, dir, opaque string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch other, oerr := os.Lstat(filepath.Join(from, rel)); {
		case fi.Mode()&fs.ModeCharDevice != 0 && fi.Sys().(*syscall.Stat_t).Rdev == 0:
			got[rel] = "whiteout"
		case fi.IsDir():
			got[rel] = strings.TrimSpace(fi.Mode().String() + " " + attribute(p, opaque))
		case oerr == nil && os.SameFile(fi, other):
			got[rel] = "link"
		default:
			got[rel] = "copy"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLinkTree(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{
		"a/.wh.gone": "", "a/kept": "x", "opaque/.wh..wh..opq": "", "opaque/new": "x", "link": "-> a/kept",
		".wh.again": "", "again/b": "x", ".wh.file": "", "file": "x", "private/x": "x",
	})
	when := time.Unix(1_000_000_000, 0)
	private := filepath.Join(from, "private")
	err := errors.Join(os.Chmod(private, 0o2750), os.Chtimes(private, when, when), os.Chmod(from, 0o711))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(private, "user.note", []byte("text"), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system has no attributes of users")
	} else if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(private, 12, 34), os.Chmod(private, 0o2750|fs.ModeSetgid), os.Chtimes(private, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	for _, userxattr := range []bool{true, false} {
		opaque := map[bool]string{true: "user.overlay.opaque", false: "trusted.overlay.opaque"}[userxattr]
		if !userxattr && os.Geteuid() != 0 {
			continue
		}
		to := filepath.Join(t.TempDir(), "tree")
		err := rootfs.LinkTree(from, to, userxattr)
		if errors.Is(err, unix.EPERM) {
			t.Skipf("this machine does not let a test make a whiteout: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			".": "drwx--x--x", "a": "drwxr-xr-x", "a/gone": "whiteout", "a/kept": "link", "opaque": "drwxr-xr-x y", "opaque/new": "link", "link": "link",
			"again": "drwxr-xr-x y", "again/b": "link", "file": "link", "private": "dgrwxr-x---", "private/x": "link",
		}
		got := shape(t, from, to, opaque)
		if os.Geteuid() != 0 {
			delete(want, "private")
			delete(got, "private")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("userxattr %t (-want +got):\n%s", userxattr, diff)
		}
		copied := filepath.Join(to, "private")
		if note := attribute(copied, "user.note"); note != "text" {
			t.Errorf("the directory's attribute is %q", note)
		}
		fi, err := os.Stat(copied)
		if err != nil || !fi.ModTime().Equal(when) {
			t.Errorf("the directory's time: %v, %v", fi, err)
		}
		if st := fi.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (st.Uid != 12 || st.Gid != 34) {
			t.Errorf("the directory belongs to %d:%d", st.Uid, st.Gid)
		}
	}
	if err := rootfs.LinkTree(filepath.Join(from, "none"), filepath.Join(t.TempDir(), "tree"), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no layer: %v", err)
	}
}

// TestLinkTreeFails links trees onto what is in the way.
func TestLinkTreeFails(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{"a/b": "x"})
	to := tree(t, map[string]string{"x/": ""})
	if err := rootfs.LinkTree(from, filepath.Join(to, "none", "tree"), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a directory that is not there: %v", err)
	}
}
