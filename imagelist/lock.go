package imagelist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

// LockName is the usual name of a lock file.
const LockName = "imageList.lock"

// A Lock gives the digest of each image that a build mirrored, and of the image
// of FROM, by the normalised reference that it was fetched from.
type Lock map[string]digest.Digest

const (
	lockHeader = "# Written by: sealer build --lock. Read by: sealer build --locked.\n"
	lockFrom   = "# It locks FROM, too.\n"
)

// LocksFrom reports whether the content of a lock file says that it has the
// image of FROM. Those of earlier versions have the mirrored images alone.
func LocksFrom(content string) bool { return strings.Contains(content, lockFrom) }

// ParseLock reads the form that Lock.String prints: "REFERENCE DIGEST" lines,
// with blank lines and comments allowed. All bad lines are reported, each as
// "name:line: ...".
func ParseLock(name string, r io.Reader) (Lock, error) {
	out := Lock{}
	var errs []error
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		key, d, err := lockLine(text)
		if old, ok := out[key]; err == nil && ok && old != d {
			err = fmt.Errorf("%s has another digest above", key)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %q: %w", name, n, text, err))
			continue
		}
		out[key] = d
	}
	if err := sc.Err(); err != nil {
		errs = append(errs, fmt.Errorf("read %s: %w", name, err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

var errLockLine = errors.New("want REFERENCE DIGEST")

func lockLine(text string) (string, digest.Digest, error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return "", "", errLockLine
	}
	r, err := ref.Parse(fields[0])
	if err != nil {
		return "", "", err
	}
	d, err := digest.Parse(fields[1])
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", errLockLine, err)
	}
	if r.Digest != "" && r.Digest != d {
		return "", "", fmt.Errorf("the reference itself says %s", r.Digest)
	}
	return r.String(), d, nil
}

// String prints the lock file, sorted.
func (l Lock) String() string {
	var b strings.Builder
	b.WriteString(lockHeader + lockFrom)
	for _, k := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s %s\n", k, l[k])
	}
	return b.String()
}
