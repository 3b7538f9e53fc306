package imagelist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// read returns a file's content, at most limit bytes; a larger file is a
// fault.
func (s *scanner) read(name string, limit int64) ([]byte, bool) {
	data, err := readLimited(s.fsys, name, limit)
	if err != nil {
		s.fault(fault{file: name, err: err})
		return nil, false
	}
	s.res.Files++
	s.log.Debug("read", "file", name, "bytes", len(data))
	return data, true
}

func readLimited(fsys fs.FS, name string, limit int64) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%d bytes, at most %d are read", info.Size(), limit)
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than the %d bytes that are read", limit)
	}
	return data, err
}

// MetadataVersion returns the Kubernetes version that a base rootfs says it
// brings, in its file Metadata, "" when there is none.
func MetadataVersion(fsys fs.FS) string {
	data, err := readLimited(fsys, "Metadata", 1<<20)
	if err != nil {
		return ""
	}
	n, err := parseYAML(data) // JSON is YAML
	if err != nil || check(n) != nil {
		return ""
	}
	return text(n, "version")
}

// hasObject reads a file in pieces and reports whether it is text that names
// an apiVersion and a kind, so that a rootfs full of binaries costs little.
func hasObject(fsys fs.FS, name string) bool {
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4096]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || slices.Contains(head[:n], 0) {
		return false
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxOther))
	all := string(head[:n]) + string(rest)
	return err == nil && strings.Contains(all, "apiVersion") && strings.Contains(all, "kind")
}
