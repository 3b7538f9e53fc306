package layer

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes returns the extended attributes of a file or directory that layers
// keep, nil when it has none.
func Attributes(f *os.File) (map[string]string, error) {
	const most = 64 << 10 // of the names, and of a value; xattr(7)
	fd := int(f.Fd())
	n, err := unix.Flistxattr(fd, nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	buf := make([]byte, most)
	n, err = unix.Flistxattr(fd, buf)
	if err != nil {
		return nil, err
	}
	var out map[string]string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !KeepsAttribute(name) {
			continue
		}
		n, err := unix.Fgetxattr(fd, name, buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(buf[:n])
	}
	return out, nil
}

// setAttributes gives a file the extended attributes of a tar's records that
// layers keep, as far as this user and the file system may have them.
func setAttributes(f *os.File, records map[string]string) error {
	for record, value := range records {
		name, ok := strings.CutPrefix(record, AttributeRecord)
		if !ok || !KeepsAttribute(name) {
			continue
		}
		err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
			return &os.PathError{Op: "set " + name, Path: f.Name(), Err: err}
		}
	}
	return nil
}
