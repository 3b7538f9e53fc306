package build

import (
	"io/fs"
	"os"
)

// A fileStat is the result of stat for a file; times are in nanoseconds.
type fileStat struct {
	mode               fs.FileMode // type and permissions
	size, mtime, ctime int64
	inode, device      uint64
	info               fs.FileInfo // where the former are not known
}

// statOf copies the needed fields of fi.
func statOf(fi fs.FileInfo) *fileStat {
	out := &fileStat{mode: fi.Mode(), size: fi.Size(), mtime: fi.ModTime().UnixNano()}
	if !out.identify(fi) {
		out.info = fi
	}
	return out
}

// same reports whether two stats are of one file.
func (s *fileStat) same(other *fileStat) bool {
	if other == nil {
		return false
	}
	if s.info != nil && other.info != nil {
		return os.SameFile(s.info, other.info)
	}
	return s.inode != 0 && s.inode == other.inode && s.device == other.device
}

// A listed is one entry of a directory.
type listed struct {
	name string
	stat *fileStat
	err  error // why there is no stat
}
