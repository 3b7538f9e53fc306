package build

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identify takes the identity of the file, and the time of its last change, out of
// fi.
func (s *fileStat) identify(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok {
		s.ctime, s.inode, s.device = st.Ctim.Nano(), st.Ino, st.Dev
	}
	return ok
}

// list returns the entries of a directory, in no order. It asks the kernel
// itself, since os makes four objects for each file, of which a large context
// has many.
func list(root *os.Root, dir string) ([]listed, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	out, stats := make([]listed, len(names)), make([]fileStat, len(names))
	err = conn.Control(func(fd uintptr) {
		var st unix.Stat_t
		for i, name := range names {
			out[i] = listed{name: name, stat: &stats[i]}
			err := unix.Fstatat(int(fd), name, &st, unix.AT_SYMLINK_NOFOLLOW)
			for err == unix.EINTR {
				err = unix.Fstatat(int(fd), name, &st, unix.AT_SYMLINK_NOFOLLOW)
			}
			if err != nil {
				out[i].err = &fs.PathError{Op: "lstat", Path: name, Err: err}
				continue
			}
			stats[i] = fileStat{
				mode: fileMode(st.Mode), size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
				inode: st.Ino, device: st.Dev,
			}
		}
	})
	return out, err
}

// fileMode makes Go's mode of the kernel's, as far as it counts here.
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR, unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}
