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

// A Lock holds the references that a build fetched.
type Lock struct {
	// Images has the digest of each image that was mirrored, and of the image of
	// FROM, by the normalised reference that it was fetched from.
	Images map[string]digest.Digest
	// Charts has the chart that was taken for each source, as a Kubefile writes
	// it: oci://… or repo+https://….
	Charts map[string]LockedChart
}

// A LockedChart is one version of a chart.
type LockedChart struct {
	Version string
	Digest  digest.Digest // of the archive; of the manifest in a registry
}

const (
	lockHeader = "# Written by: sealer build --lock. Read by: sealer build --locked.\n"
	lockFrom   = "# It locks FROM, too.\n"
)

// LocksFrom reports whether the content of a lock file says that it has the
// image of FROM. Those of earlier versions have the mirrored images alone.
func LocksFrom(content string) bool { return strings.Contains(content, lockFrom) }

// ParseLock reads the form that Lock.String prints: "REFERENCE DIGEST" lines,
// and "SOURCE VERSION DIGEST" for charts, with blank lines and comments allowed.
// All bad lines are reported, each as "name:line: ...".
func ParseLock(name string, r io.Reader) (Lock, error) {
	out := Lock{Images: map[string]digest.Digest{}, Charts: map[string]LockedChart{}}
	var errs []error
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if err := out.add(text); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %q: %w", name, n, text, err))
		}
	}
	if err := sc.Err(); err != nil {
		errs = append(errs, fmt.Errorf("read %s: %w", name, err))
	}
	if err := errors.Join(errs...); err != nil {
		return Lock{}, err
	}
	return out, nil
}

// add reads one line.
func (l Lock) add(text string) error {
	if fields := strings.Fields(text); len(fields) == 3 && strings.Contains(fields[0], "://") {
		c := LockedChart{fields[1], digest.Digest(fields[2])}
		if err := ref.CheckDigest(c.Digest); err != nil {
			return err
		}
		if old, ok := l.Charts[fields[0]]; ok && old != c {
			return fmt.Errorf("%s has another version or digest above", fields[0])
		}
		l.Charts[fields[0]] = c
		return nil
	}
	key, d, err := lockLine(text)
	if err != nil {
		return err
	}
	if old, ok := l.Images[key]; ok && old != d {
		return fmt.Errorf("%s has another digest above", key)
	}
	l.Images[key] = d
	return nil
}

var errLockLine = errors.New("want REFERENCE DIGEST, or CHART VERSION DIGEST")

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
	for _, k := range slices.Sorted(maps.Keys(l.Images)) {
		fmt.Fprintf(&b, "%s %s\n", k, l.Images[k])
	}
	for _, k := range slices.Sorted(maps.Keys(l.Charts)) {
		fmt.Fprintf(&b, "%s %s %s\n", k, l.Charts[k].Version, l.Charts[k].Digest)
	}
	return b.String()
}
