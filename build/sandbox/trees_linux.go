package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// treesOf returns the directories that hold dir and the layers: overlayfs gets
// the layers from mounts of these.
func treesOf(dir string, layers []string) []string {
	out := []string{dir}
	for _, l := range layers {
		if parent := filepath.Dir(l); !slices.Contains(out, parent) {
			out = append(out, parent)
		}
	}
	return out
}

// cloneTree returns a detached mount of dir, which the caller closes. In a user
// namespace the kernel clones a directory with mounts below only together with
// these: flags is AT_RECURSIVE there.
func cloneTree(dir string, flags uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s (Linux 5.2 or later can): %w", dir, err)
	}
	return fd, nil
}

// mapTree returns a detached mount of dir in which the user IDs of the file
// system are those of a user namespace: root's files belong to the namespace's
// root. The caller closes the mount.
func mapTree(dir string, namespace *os.File) (int, error) {
	fd, err := cloneTree(dir, 0)
	if err != nil {
		return -1, err
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return -1, fmt.Errorf("map the user IDs of %s: %w", dir, errors.Join(err, unix.Close(fd)))
	}
	return fd, nil
}

// sendTrees sends mounts over a socket, each with a byte of data.
func sendTrees(socket *os.File, trees []int) error {
	for _, fd := range trees {
		if err := unix.Sendmsg(int(socket.Fd()), []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
			return fmt.Errorf("hand over the layers: %w", err)
		}
	}
	return nil
}

// openTrees returns a mount for each of c.Trees, from the parent or made here.
func (c *childConfig) openTrees() ([]int, error) {
	out := make([]int, len(c.Trees))
	for i, dir := range c.Trees {
		var err error
		if c.SentTrees {
			out[i], err = receiveTree(treesFile)
		} else {
			out[i], err = cloneTree(dir, unix.AT_RECURSIVE)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func receiveTree(socket int) (int, error) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("take over the layers: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("take over the layers: %w", errors.Join(err, unix.EBADMSG))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("take over the layers: %w", errors.Join(err, unix.EBADMSG))
	}
	return fds[0], nil
}
