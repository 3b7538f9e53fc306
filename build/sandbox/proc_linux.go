package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The settings of the machine in /proc. A write to one needs the user ID 0 and
// no capability: /proc/sys/kernel/core_pattern names a program that the kernel
// starts as root. Both lists follow the container runtimes' defaults
// (opencontainers/runc, libcontainer/specconv).
func readOnlyProc() []string { return []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} }

// maskedProc lists files of /proc with facts about the whole machine.
func maskedProc() []string {
	return []string{
		"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
	}
}

// mountProc shows the processes of the namespace in dir, without the files that
// change or reveal the machine. A kernel refuses a new proc where /proc is partly
// masked, as in containers: the command then gets that /proc, read-only.
func mountProc(dir string) error {
	if err := unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		if err := unix.Mount("/proc", dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
		return setReadOnly(dir, unix.AT_RECURSIVE)
	}
	for _, name := range readOnlyProc() {
		if err := bindReadOnly(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("make /proc/%s read-only: %w", name, err)
		}
	}
	for _, name := range maskedProc() {
		if err := mask(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("hide /proc/%s: %w", name, err)
		}
	}
	return nil
}

// bindReadOnly mounts path on itself, read-only. A missing path is no error.
func bindReadOnly(path string) error {
	err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// mask hides path under an empty directory or /dev/null. A missing path is no
// error.
func mask(path string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.IsDir():
		return unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0555,size=4k")
	}
	return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
}
