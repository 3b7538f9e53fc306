package archive

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// The numbers of parts have four digits.
func TestTooManyParts(t *testing.T) {
	t.Parallel()
	s := &sink{base: "v1.tar", limit: 5, files: make([]*pending, maxParts), sums: []*counter{{n: 5}}}
	if _, err := s.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "choose larger ones") {
		t.Errorf("%v", err)
	}
}

// Names of parts stay in their directory, and the lines come back as they were.
func FuzzParseSums(f *testing.F) {
	d := digest.FromString("x")
	f.Add(formatSums([]sum{{partName("v1.tar", 1), d}, {partName("v1.tar", 2), d}}))
	f.Add(formatSums([]sum{{"v1.tar", d}}))
	f.Add([]byte(d.Encoded() + " *v1.tar\r\n"))
	f.Add([]byte(d.Encoded() + "  ../v1.tar\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sums, err := parseSums(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		for _, s := range sums {
			if s.name != filepath.Base(s.name) || !filepath.IsLocal(s.name) || s.digest.Validate() != nil {
				t.Errorf("%q %q", s.name, s.digest)
			}
		}
		again, err := parseSums(formatSums(sums))
		if err != nil || !bytes.Equal(formatSums(again), formatSums(sums)) {
			t.Errorf("%q came back as %q, %v", formatSums(sums), formatSums(again), err)
		}
	})
}
