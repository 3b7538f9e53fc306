package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lines are as proc_pid_mountinfo(5) has them.
const mounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
23 22 0:5 / /var rw shared:2 - xfs /dev/sda2 rw,attr2
24 23 0:6 / /var/lib/with\040space\134 rw,nosuid - nfs4 host:/a ro,vers=4.2
25 23 0:7 / /var/lib/twice rw - tmpfs tmpfs rw
26 25 0:8 / /var/lib/twice ro - overlay overlay rw
27 23 0:9 / /var/short rw - ext4
28 23 0:9 /
29 23 0:9 / /var/five - ext4 /dev/sdb rw
30 23 0:9 / /var/six rw - ext2 /dev/sdb rw
`

func TestMountOfADirectory(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]Disk{
		"/":                             {Mounted: "/", Type: "ext4", Options: "rw,relatime,rw,errors=remount-ro"},
		"/home":                         {Mounted: "/", Type: "ext4", Options: "rw,relatime,rw,errors=remount-ro"},
		"/variable":                     {Mounted: "/", Type: "ext4", Options: "rw,relatime,rw,errors=remount-ro"},
		"/var":                          {Mounted: "/var", Type: "xfs", Options: "rw,rw,attr2"},
		"/var/lib/sealer":               {Mounted: "/var", Type: "xfs", Options: "rw,rw,attr2"},
		`/var/lib/with space\/store`:    {Mounted: `/var/lib/with space\`, Type: "nfs4", Options: "rw,nosuid,ro,vers=4.2"},
		"/var/lib/twice/store":          {Mounted: "/var/lib/twice", Type: "overlay", Options: "ro,rw"},
		"/var/short":                    {Mounted: "/var", Type: "xfs", Options: "rw,rw,attr2"},
		"/var/five/no/options/of/mount": {Mounted: "/var", Type: "xfs", Options: "rw,rw,attr2"},
		"/var/six/without/tags":         {Mounted: "/var/six", Type: "ext2", Options: "rw,rw"},
	} {
		var got Disk
		got.mount(mounts, dir)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
	}
}

func TestRisksOfADisk(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ kind, options, want string }{
		{"xfs", "rw,relatime", ""},
		{"btrfs", "rw", ""},
		{"tmpfs", "rw", "tmpfs is memory"},
		{"ramfs", "rw", "ramfs is memory"},
		{"ext2", "rw", "ext2 without a journal"},
		{"ext3", "rw", ""},
		{"ext3", "rw,noload", "ext3 without a journal"},
		{"xfs", "rw,noload", ""},
		{"overlay", "rw", "a container's own file system"},
		{"vfat", "rw", "vfat has no hard links"},
		{"nfs4", "rw", "nfs4 is a shared or network file system"},
		{"fuse.sshfs", "rw", "fuse.sshfs is a shared"},
		{"xfs", "rw,nobarrier", "write barriers are off"},
		{"ext3", "rw,barrier=0", "write barriers are off"},
		{"xfs", "ro,relatime", "it is mounted read-only"},
		{"tmpfs", "ro", "tmpfs is memory|it is mounted read-only"},
	} {
		got := (&Disk{Type: tc.kind, Options: tc.options}).risks(t.TempDir())
		var want []string
		if tc.want != "" {
			want = strings.Split(tc.want, "|")
		}
		if len(got) != len(want) {
			t.Errorf("%s %s: %q, want %q", tc.kind, tc.options, got, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s %s: %q, want %q", tc.kind, tc.options, got[i], want[i])
			}
		}
	}
}

// A store that is not made yet will lie on the file system of the nearest directory
// above it that is there, through symbolic links.
func TestDiskOf(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	here, err := DiskOf(dir)
	if err != nil || here.Type == "" || here.Free <= 0 || here.Mounted == "" || here.Risks == nil || !strings.HasPrefix(dir, here.Mounted) {
		t.Errorf("%+v, %v", here, err)
	}
	below, err := DiskOf(filepath.Join(dir, "not", "there", "yet"))
	if err != nil || below.Mounted != here.Mounted || below.Type != here.Type {
		t.Errorf("%+v, %v; want as %+v", below, err, here)
	}
	linked, err := DiskOf(link)
	if err != nil || linked.Type != "proc" || linked.Mounted != "/proc" {
		t.Errorf("through a link: %+v, %v", linked, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := DiskOf(filepath.Join(file, "below")); err == nil {
		t.Errorf("below a file: %+v", d)
	}
}
