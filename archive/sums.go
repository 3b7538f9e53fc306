package archive

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
)

const (
	// sumsSuffix ends the name of the file of checksums, which sha256sum -c reads.
	sumsSuffix = ".sha256"
	// maxParts is the most parts of an archive: their numbers have four digits, so
	// that the shell's order of the names is the order of the parts.
	maxParts = 9999
	maxSums  = 4 << 20 // bytes
)

var (
	// ErrDamaged is wrapped by errors about a part that has not the content that
	// the file of checksums says.
	ErrDamaged = errors.New("damaged")
	// ErrMissing is wrapped by errors about parts that are not there.
	ErrMissing = errors.New("missing")
	// ErrInvalid is wrapped by errors about a file of checksums that is none, and
	// about arguments that are no archive.
	ErrInvalid = errors.New("invalid archive")
)

// A sum is a line of a file of checksums.
type sum struct {
	name   string // without a directory
	digest digest.Digest
}

// partName returns the name of the part n, which counts from 1.
func partName(base string, n int) string { return fmt.Sprintf("%s.part%04d", base, n) }

var partPattern = regexp.MustCompile(`^(.+)\.part(\d{4})$`)

// formatSums writes the lines as sha256sum does.
func formatSums(sums []sum) []byte {
	var b bytes.Buffer
	for _, s := range sums {
		fmt.Fprintf(&b, "%s  %s\n", s.digest.Encoded(), s.name)
	}
	return b.Bytes()
}

// parseSums reads a file of checksums: of one file, or of all parts in their
// order. The names have no directory, so that they cannot lead out of theirs.
func parseSums(b []byte) ([]sum, error) {
	if len(b) > maxSums {
		return nil, fmt.Errorf("%w: a file of checksums of %d bytes", ErrInvalid, len(b))
	}
	var out []sum
	for n, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		hex, name, ok := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		d := digest.NewDigestFromEncoded(digest.SHA256, hex)
		if name != "" && (name[0] == ' ' || name[0] == '*') { // of a text or a binary file
			name = name[1:]
		}
		if !ok || d.Validate() != nil || !plainName(name) {
			return nil, fmt.Errorf("%w: line %d: want a SHA-256 and the name of a part", ErrInvalid, n+1)
		}
		out = append(out, sum{name, d})
	}
	if len(out) == 1 && !partPattern.MatchString(out[0].name) {
		return out, nil
	}
	for i, s := range out {
		m := partPattern.FindStringSubmatch(s.name)
		if m == nil || partName(strings.TrimSuffix(out[0].name, ".part0001"), i+1) != s.name {
			return nil, fmt.Errorf("%w: line %d: %q is not part %d", ErrInvalid, i+1, s.name, i+1)
		}
	}
	return out, nil
}

// plainName reports whether name is that of a file in a directory, on every system.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && strings.TrimSpace(name) == name &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`/\:`, r) })
}

// ParseSize reads a number of bytes: 4GiB, 700MB, 4G. KiB, MiB, GiB and TiB are
// powers of 1024, and so are K, M, G and T, as in split(1); KB, MB, GB and TB are
// powers of 1000.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("size %q: want a number of bytes such as 4GiB or 700MB", s)
	}
	unit := strings.TrimPrefix(s, digits)
	base := int64(1024)
	if len(unit) == 2 && unit[1] == 'B' {
		base = 1000
	}
	power := 0
	if unit != "" && unit != "B" {
		power = strings.IndexByte("KMGT", unit[0]) + 1
		if rest := unit[1:]; power == 0 || rest != "" && rest != "B" && rest != "iB" {
			return 0, fmt.Errorf("size %q: want a number of bytes such as 4GiB or 700MB", s)
		}
	}
	for range power {
		if n > (1<<62)/base {
			return 0, fmt.Errorf("size %q: too large", s)
		}
		n *= base
	}
	return n, nil
}
