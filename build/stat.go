package build

import (
	"io/fs"
	"syscall"
)

// A fileStat is what stat says of a file; times are in nanoseconds.
type fileStat struct {
	mode               fs.FileMode // type and permissions
	size, mtime, ctime int64
	inode, device      uint64
}

// statOf takes what is needed out of fi.
func statOf(fi fs.FileInfo) *fileStat {
	out := &fileStat{mode: fi.Mode(), size: fi.Size(), mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		out.ctime = changeTime(st)
		out.inode, out.device = st.Ino, uint64(st.Dev) //nolint:unconvert // it is smaller elsewhere
	}
	return out
}

// same reports whether two stats are of one file.
func (s *fileStat) same(other *fileStat) bool {
	return other != nil && s.inode == other.inode && s.device == other.device
}

// A listed is one entry of a directory.
type listed struct {
	name string
	stat *fileStat
	err  error // why there is no stat
}
