package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A disk is a file system in a file, mounted by a loop device.
type disk struct{ file, dir string }

// mountNew makes an ext4 in a file of some megabytes, with as many inodes as given
// (0: the default), and mounts it.
func (l *lab) mountNew(name string, megabytes, inodes int) (*disk, error) {
	d := &disk{l.dir + "/" + name + ".img", l.dir + "/" + name}
	args := []string{"-q", "-F", "-m", "0"}
	if inodes > 0 {
		args = append(args, "-N", strconv.Itoa(inodes))
	}
	if err := sh("truncate", "-s", fmt.Sprint(megabytes, "M"), d.file); err != nil {
		return nil, err
	}
	if err := sh("mkfs.ext4", append(args, d.file)...); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func (d *disk) mount() error {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	return sh("mount", "-o", "loop", d.file, d.dir)
}

func (d *disk) unmount() error { return sh("umount", d.dir) }

func sh(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// fullDisks runs n commands on disks with little space or few inodes left.
func (l *lab) fullDisks(n int) {
	for _, inodes := range []bool{false, true} {
		events := n / 2
		if !inodes {
			events = n - n/2
		}
		d, err := l.mountNew(fmt.Sprint("full-", inodes), 48, map[bool]int{true: 600}[inodes])
		if err != nil {
			l.skip(events, "%v", err)
			continue
		}
		l.fullDisk(d, events, inodes)
		if err := d.unmount(); err != nil {
			l.lost("%v", err)
		}
	}
}

func (l *lab) fullDisk(d *disk, n int, inodes bool) {
	root, filler := d.dir+"/store", d.dir+"/filler"
	if err := l.fill(root); err != nil {
		l.lost("fill: %v", err)
		return
	}
	for i := range n {
		relieve := func(event string) {
			if out, err := l.run(root, "prune"); err != nil {
				l.lost("%s: prune on the full disk: %v\n%s", event, err, out)
			}
			_ = os.RemoveAll(filler)
		}
		l.event(l.op(i), root, i, func(event string, args []string, _ map[string]string, _ []string) (bool, error) {
			if err := occupy(d.dir, filler, inodes, l.rng.IntN(1200)); err != nil {
				l.lost("%s: %v", event, err)
			}
			_, err := l.run(root, args...)
			if err != nil && !strings.Contains(strings.ToLower(err.Error()), "space") {
				fmt.Printf("%s %s: the error does not speak of the disk: %v\n", l.part, event, err)
			}
			return err != nil, err
		}, relieve)
	}
	l.minimal("at the end", root)
}

// occupy leaves left KiB of the file system of dir, or left/12 inodes.
func occupy(dir, filler string, inodes bool, left int) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	if !inodes {
		size := int64(s.Bavail)*int64(s.Bsize) - int64(left)<<10
		if size <= 0 {
			return nil
		}
		return sh("fallocate", "-l", fmt.Sprint(size), filler)
	}
	if err := os.MkdirAll(filler, 0o755); err != nil {
		return err
	}
	for i := range int(s.Ffree) - left/12 {
		if err := os.WriteFile(filepath.Join(filler, strconv.Itoa(i)), nil, 0o644); err != nil {
			return nil // full already
		}
	}
	return nil
}

// powerCuts copies the file under a mounted store at n random moments: the copy
// lacks what the page cache held. On it, after another boot, the store must have
// every image that was reported as done.
func (l *lab) powerCuts(n int) {
	d, err := l.mountNew("power", 64, 0)
	if err != nil {
		l.skip(n, "%v", err)
		return
	}
	defer func() {
		if err := d.unmount(); err != nil {
			l.lost("%v", err)
		}
	}()
	root := d.dir + "/store"
	if err := l.fill(root); err != nil {
		l.lost("fill: %v", err)
		return
	}
	if err := write(l.dir+"/boot_id", "00000000-0000-4000-8000-000000000000\n"); err != nil {
		l.lost("%v", err)
		return
	}
	for i := range n {
		l.event(l.op(i), root, i, func(event string, args []string, sound map[string]string, may []string) (bool, error) {
			cmd := l.command(context.Background(), root, nil, args...)
			if err := cmd.Start(); err != nil {
				return false, err
			}
			// Most commands end within 100 ms, a few on a busy machine within 400.
			time.Sleep(time.Duration(400 * math.Pow(l.rng.Float64(), 3) * float64(time.Millisecond)))
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(20 * time.Millisecond)
			l.powerCut(fmt.Sprintf("%s, power cut", event), d, i, sound, may)
			_ = cmd.Process.Kill()
			err := cmd.Wait()
			return err != nil, err
		}, nil)
	}
}

func (l *lab) powerCut(event string, d *disk, n int, sound map[string]string, may []string) {
	// A name of its own: a loop device that lingers must not show old blocks.
	after := &disk{fmt.Sprintf("%s/cut%d.img", l.dir, n), fmt.Sprintf("%s/cut%d", l.dir, n)}
	defer os.Remove(after.file)
	exact := false
	for range 100 { // until the copy is of one moment
		if err := sh("cp", "--sparse=always", d.file, after.file); err != nil {
			l.lost("%s: %v", event, err)
			return
		}
		if exact = sh("cmp", "-s", d.file, after.file) == nil; exact {
			break
		}
	}
	if !exact {
		l.skipped++
		return
	}
	if err := after.mount(); err != nil {
		l.lost("%s: the file system is damaged: %v", event, err)
		return
	}
	defer func() {
		if err := after.unmount(); err != nil {
			l.lost("%s: %v", event, err)
		}
	}()
	reboot := []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, l.dir + "/boot_id"}
	rebooted := *l
	rebooted.counts = counts{}
	rebooted.before = reboot
	rebooted.check(event, after.dir+"/store", sound, may...)
	l.checks += rebooted.checks
	l.losses += rebooted.losses
}
