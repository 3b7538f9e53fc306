package registry

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// file opens a file or a directory for reading.
func (d *dir) file(path string) (*os.File, error) {
	fd, err := d.beneath(path, unix.O_RDONLY)
	if unusable(err) {
		return d.walkOpen(path)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// stat describes the file at path. The result's path is left empty.
func (d *dir) stat(path string) (fileInfo, error) {
	fd, err := d.beneath(path, unix.O_PATH)
	if unusable(err) {
		return d.walkStat(path)
	}
	if err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileInfo{size: st.Size, modified: time.Unix(st.Mtim.Unix()), dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// beneath opens path in one system call, openat2(2). The kernel refuses a path
// that leads out of d by ".." or by a symbolic link.
func (d *dir) beneath(path string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(int(d.self.Fd()), path, &unix.OpenHow{
			Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// unusable reports whether openat2 could not decide: the kernel is older than
// Linux 5.6, a sandbox does not know the call, or a directory on the way was
// renamed meanwhile.
func unusable(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAGAIN)
}
