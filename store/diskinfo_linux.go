package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// describe fills in the mount that dir lies on, by proc_pid_mountinfo(5).
func (d *Disk) describe(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	d.mount(string(table), dir)
	d.Risks = append(d.Risks, d.risks(dir)...)
	return nil
}

// mount fills in the mount of table that dir lies on.
func (d *Disk) mount(table, dir string) {
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(l[4])
		below := dir == at || strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/")
		if below && len(at) >= len(d.Mounted) { // the last of equal places is on top
			d.Mounted, d.Type, d.Options = at, r[0], l[5]+","+r[2]
		}
	}
}

// risks judges the type and the options.
func (d *Disk) risks(dir string) []string {
	var out []string
	options := strings.Split(d.Options, ",")
	has := func(o ...string) bool {
		return slices.ContainsFunc(o, func(o string) bool { return slices.Contains(options, o) })
	}
	switch {
	case d.Type == "tmpfs" || d.Type == "ramfs":
		out = append(out, d.Type+" is memory: the images are gone when the machine restarts")
	case d.Type == "ext2", d.Type == "ext3" && has("noload"), d.Type == "ext4" && withoutJournal(dir):
		out = append(out, d.Type+" without a journal: after a power failure the file system may be damaged, and images with it; tune2fs -O has_journal makes one")
	case d.Type == "overlay":
		out = append(out, "a container's own file system: the images go with the container, and RUN cannot use it; put the store on a volume")
	case slices.Contains([]string{"vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk"}, d.Type):
		out = append(out, d.Type+" has no hard links and no owners: images cannot be unpacked there")
	case slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "vboxsf", "virtiofs"}, d.Type) || strings.HasPrefix(d.Type, "fuse"):
		out = append(out, d.Type+" is a shared or network file system: locks and flushes depend on its server, and RUN and mount cannot use it")
	}
	if has("nobarrier", "barrier=0") {
		out = append(out, "write barriers are off: a power failure may lose what was flushed")
	}
	if has("ro") {
		out = append(out, "it is mounted read-only")
	}
	return out
}

// withoutJournal reports whether the ext4 that dir lies on has no journal: then no
// process writes one.
func withoutJournal(dir string) bool {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task"))
	return err == nil && strings.TrimSpace(string(task)) == "<none>"
}
