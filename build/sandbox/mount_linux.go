package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/rootfs"
)

// mount makes a new root for the command and enters it. Everything is mounted
// below a tmpfs over a directory of the machine that every user may enter; the
// machine's own root is unmounted in the end, so that no path leads back to it.
func (c *childConfig) mount(trees []int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Sethostname([]byte("sealer")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if c.Loopback {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("bring up the loopback interface: %w", err)
		}
	}
	names := nameServers()
	scratch, err := scratchDir()
	if err != nil {
		return err
	}
	if err := attachTrees(scratch, trees); err != nil {
		return err
	}
	root := filepath.Join(scratch, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", root, err)
	}
	if c.Chroot {
		err = c.rootfsRoot(scratch, root)
	} else {
		err = c.hostRoot(scratch, root, names)
	}
	if err != nil {
		return err
	}
	if err := enter(root); err != nil {
		return err
	}
	if c.Chroot {
		if err := bindResolv(names.content); err != nil {
			return fmt.Errorf("mount /etc/resolv.conf: %w", err)
		}
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	return os.Chdir(c.workDir())
}

func (c *childConfig) workDir() string {
	if c.Chroot {
		return "/"
	}
	return Root
}

// scratchDir mounts a tmpfs over one of the machine's directories and returns its
// path.
func scratchDir() (string, error) {
	for _, dir := range []string{"/tmp", "/mnt", "/run", "/var"} {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
			return dir, mountTmpfs(dir, "mode=0755")
		}
	}
	return "", errors.New("the machine has none of /tmp, /mnt, /run and /var to mount on")
}

// attachTrees mounts each tree at scratch/trees/INDEX.
func attachTrees(scratch string, trees []int) error {
	for i, fd := range trees {
		to := filepath.Join(scratch, "trees", strconv.Itoa(i))
		if err := os.MkdirAll(to, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", to, err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount the layers: %w", err)
		}
		_ = unix.Close(fd)
	}
	return nil
}

// overlay mounts the rootfs at dir.
func (c *childConfig) overlay(scratch, dir string) error {
	spare := filepath.Join(scratch, "spare")
	if err := os.Mkdir(spare, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", spare, err)
	}
	inTree := func(dir string) string {
		n := slices.Index(c.Trees, filepath.Dir(dir))
		return filepath.Join(scratch, "trees", strconv.Itoa(n), filepath.Base(dir))
	}
	o := rootfs.Overlay{
		Spare: spare, UserXattr: c.UserXattr, SetUID: true,
		Upper: inTree(filepath.Join(c.Dir, Upper)), Work: inTree(filepath.Join(c.Dir, "work")),
	}
	for _, layer := range c.Layers {
		o.Lower = append(o.Lower, inTree(layer))
	}
	if err := o.Mount(dir); err != nil {
		return fmt.Errorf("mount the rootfs: %w (the store's file system must be one that overlayfs can write to, not itself an overlay)", err)
	}
	return nil
}

// furnish mounts /dev, /run, /tmp and /proc in root.
func furnish(root string) error {
	for _, dir := range []string{"dev", "run", "tmp", "proc"} {
		if err := makeDir(root, dir); err != nil {
			return err
		}
	}
	if err := devices(filepath.Join(root, "dev")); err != nil {
		return err
	}
	if err := mountTmpfs(filepath.Join(root, "run"), "mode=0755"); err != nil {
		return err
	}
	if err := mountTmpfs(filepath.Join(root, "tmp"), "mode=1777"); err != nil {
		return err
	}
	return mountProc(filepath.Join(root, "proc"))
}

// devices makes a /dev without disks and terminals of the machine.
func devices(dev string) error {
	if err := mountTmpfs(dev, "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		to := filepath.Join(dev, name)
		if err := os.WriteFile(to, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	shm := filepath.Join(dev, "shm")
	if err := os.Mkdir(shm, 0o1777); err != nil {
		return err
	}
	return os.Chmod(shm, 0o777|os.ModeSticky)
}

// rootfsRoot makes the rootfs itself the new root.
func (c *childConfig) rootfsRoot(scratch, root string) error {
	if err := c.overlay(scratch, root); err != nil {
		return err
	}
	if err := makeDir(root, "etc"); err != nil {
		return err
	}
	return furnish(root)
}

// enter makes root the root of this process and unmounts the old one.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's files: %w", err)
	}
	return os.Chdir("/")
}

// writeFiles writes the command's files and sets their variables.
func (c *childConfig) writeFiles() error {
	for _, f := range c.Files {
		if f.Env != "" {
			c.Env = append(c.Env, f.Env+"="+string(f.Content))
		}
		if f.Path == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.Path, f.Content, f.Mode); err != nil {
			return err
		}
		if err := os.Chmod(f.Path, f.Mode); err != nil { // whatever the umask is
			return err
		}
	}
	return nil
}

// makeDir makes a mount point in the rootfs. A symbolic link in its place is an
// error: a mount would follow it.
func makeDir(root, name string) error {
	p := filepath.Join(root, name)
	fi, err := os.Lstat(p)
	if errors.Is(err, os.ErrNotExist) {
		return os.Mkdir(p, 0o755)
	}
	if err == nil && !fi.IsDir() {
		return fmt.Errorf("isolation=chroot: /%s of the rootfs is no directory", name)
	}
	return err
}

// bindResolv gives the rootfs the machine's name servers while the command runs.
func bindResolv(content []byte) error {
	const to, from = "/etc/resolv.conf", "/run/resolv.conf"
	if fi, err := os.Lstat(to); err == nil && !fi.Mode().IsRegular() {
		return nil // a link of the rootfs, most likely into /run
	} else if err != nil {
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(from, content, 0o644); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND, "")
}

func mountTmpfs(dir, options string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", dir, err)
	}
	return nil
}
