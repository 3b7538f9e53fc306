package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount makes what the command sees. Everything is mounted below c.Dir, taken
// off there as detached trees, and put where it belongs when all else has
// become read-only.
func (c *runConfig) mount() error {
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
	if err := c.overlay(); err != nil {
		return err
	}
	if err := c.devices(); err != nil {
		return err
	}
	if err := c.runtimeDir(); err != nil {
		return err
	}
	if err := mountTmpfs(filepath.Join(c.Dir, "tmp"), "mode=1777"); err != nil {
		return err
	}
	if c.Chroot {
		return c.enterRootfs()
	}
	return c.enterHost()
}

// overlay mounts the rootfs at Dir/merged. Short relative names keep the option
// within the page that the kernel gives it.
func (c *runConfig) overlay() error {
	lower := filepath.Join(c.Dir, "lower")
	var names []string
	for i, dir := range c.Layers {
		name := strconv.Itoa(i)
		if err := os.Symlink(dir, filepath.Join(lower, name)); err != nil {
			return err
		}
		names = append([]string{name}, names...)
	}
	if err := os.Chdir(lower); err != nil {
		return err
	}
	options := "lowerdir=" + strings.Join(names, ":") + ",upperdir=../upper,workdir=../work,redirect_dir=off,metacopy=off,index=off"
	if c.UserXattr {
		options += ",userxattr"
	}
	err := unix.Mount("overlay", "../merged", "overlay", unix.MS_NODEV, options)
	if errors.Is(err, unix.EINVAL) {
		// Older kernels know fewer options; what they lack they do not do.
		options = strings.ReplaceAll(options, ",redirect_dir=off,metacopy=off,index=off", "")
		err = unix.Mount("overlay", "../merged", "overlay", unix.MS_NODEV, options)
	}
	if err != nil {
		return fmt.Errorf("mount the rootfs with overlayfs: %w (the store's file system must be one that overlayfs can write to, not itself an overlay)", err)
	}
	return nil
}

// devices makes a /dev that has nothing of the machine's disks.
func (c *runConfig) devices() error {
	dev := filepath.Join(c.Dir, "dev")
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

// runtimeDir makes a /run that has the secrets and what name resolution needs,
// and no sockets of the machine's services.
func (c *runConfig) runtimeDir() error {
	run := filepath.Join(c.Dir, "run")
	if err := mountTmpfs(run, "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"systemd/resolve", "resolvconf", "NetworkManager"} {
		conf, err := os.ReadFile(filepath.Join("/run", name, "resolv.conf"))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Join(run, name), 0o755), os.WriteFile(filepath.Join(run, name, "resolv.conf"), conf, 0o644))
			if err != nil {
				return err
			}
		}
		if stub, err := os.ReadFile(filepath.Join("/run", name, "stub-resolv.conf")); err == nil {
			if err := os.WriteFile(filepath.Join(run, name, "stub-resolv.conf"), stub, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSecrets writes the secrets where /run and /tmp are now.
func (c *runConfig) writeSecrets() error {
	for _, s := range c.Secrets {
		if s.Env != "" {
			c.Env = append(c.Env, s.Env+"="+string(s.Content))
		}
		if s.Path == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(s.Path, s.Content, s.Mode); err != nil {
			return err
		}
		if err := os.Chmod(s.Path, s.Mode); err != nil {
			return err
		}
	}
	return nil
}

// detach takes the mount at Dir/name off, with what is mounted in it.
func (c *runConfig) detach(name string) (int, error) {
	p := filepath.Join(c.Dir, name)
	fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("detach %s: %w", name, err)
	}
	if err := unix.Unmount(p, unix.MNT_DETACH); err != nil {
		return -1, fmt.Errorf("detach %s: %w", name, err)
	}
	return fd, nil
}

func attach(fd int, to string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return unix.Close(fd)
}

// enterHost shows the machine's files read-only, with the rootfs at runRoot.
func (c *runConfig) enterHost() error {
	if err := mountTmpfs(filepath.Join(c.Dir, "mnt"), "mode=0755"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(c.Dir, "mnt", filepath.Base(runRoot)), 0o755); err != nil {
		return err
	}
	fds := map[string]int{}
	for _, name := range []string{"merged", "dev", "run", "tmp", "mnt"} {
		fd, err := c.detach(name)
		if err != nil {
			return err
		}
		fds[name] = fd
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("make the machine's files read-only (Linux 5.12 or later can): %w", err)
	}
	for _, m := range []struct{ name, to string }{{"dev", "/dev"}, {"run", "/run"}, {"tmp", "/tmp"}, {"mnt", filepath.Dir(runRoot)}, {"merged", runRoot}} {
		if err := attach(fds[m.name], m.to); err != nil {
			return err
		}
	}
	mountProc("/proc")
	if err := c.writeSecrets(); err != nil {
		return err
	}
	return os.Chdir(runRoot)
}

// enterRootfs makes the rootfs the root of all that the command sees.
func (c *runConfig) enterRootfs() error {
	root := filepath.Join(c.Dir, "merged")
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	for _, name := range []string{"dev", "run", "tmp"} {
		fd, err := c.detach(name)
		if err != nil {
			return err
		}
		if err := makeDir(root, name); err != nil {
			return err
		}
		if err := attach(fd, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"proc", "etc"} {
		if err := makeDir(root, name); err != nil {
			return err
		}
	}
	mountProc(filepath.Join(root, "proc"))
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the rootfs: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's files: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := bindResolv(resolv); err != nil {
		return err
	}
	return c.writeSecrets()
}

// makeDir makes a mount point in the rootfs, which may have it as a link: then
// the link stays, and nothing is mounted through it.
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

// bindResolv gives the rootfs the machine's name servers for the time of the
// command.
func bindResolv(content []byte) error {
	const to, from = "/etc/resolv.conf", "/run/resolv.conf"
	if fi, err := os.Lstat(to); err == nil && !fi.Mode().IsRegular() {
		return nil // a link, into /run most likely: the rootfs knows what it does
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
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

// mountProc shows the processes of the namespace. Where the kernel refuses, as
// in some containers, /proc stays as it is, read-only.
func mountProc(dir string) {
	_ = unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}
