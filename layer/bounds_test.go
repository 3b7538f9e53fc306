package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestTooManyEntries unpacks tars of one entry, again and again: their blobs are
// small.
func TestTooManyEntries(t *testing.T) {
	t.Parallel()
	one := tarOf(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}})
	one = one[:len(one)-1024]
	endless := func(n int) io.Reader {
		return io.MultiReader(bytes.NewReader(bytes.Repeat(one, n)), bytes.NewReader(make([]byte, 1024)))
	}
	for name, tc := range map[string]struct {
		entries int
		want    error
	}{
		"many":     {fewEntries, nil},
		"too many": {fewEntries + 1, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := Read(t.Context(), dir, endless(tc.entries), 1000, Options{})
			if !errors.Is(err, tc.want) {
				t.Errorf("Read: %v, want %v", err, tc.want)
			}
		})
	}
	if got := maxEntriesOf(1 << 40); got != maxEntries {
		t.Errorf("a large blob may have %d entries, want %d", got, maxEntries)
	}
	u := unpacker{kept: kept{entries: maxEntries}, o: unpackOptions{entries: maxEntries}}
	if err := u.entry(&tar.Header{Name: "a", Typeflag: tar.TypeXGlobalHeader}, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("entry %d: %v", maxEntries+1, err)
	}
}

// TestKeptHeaders reads tars whose headers unpack to far more than their blobs.
func TestKeptHeaders(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1_000_000)
	for name, tc := range map[string]struct {
		header tar.Header
		n      int
		want   error // of Read, which keeps directories alone
	}{
		"attributes":       {tar.Header{Typeflag: tar.TypeDir, PAXRecords: map[string]string{"SCHILY.xattr.user.x": long}}, 70, ErrInvalid},
		"other attributes": {tar.Header{Typeflag: tar.TypeDir, PAXRecords: map[string]string{"SCHILY.xattr.trusted.x": long}}, 70, nil},
		"comments":         {tar.Header{Typeflag: tar.TypeDir, PAXRecords: map[string]string{"VENDOR.x": long}}, 70, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.header.Name, tc.header.Mode = "d/", 0o755
			one := tarOf(&tc.header)
			one = one[:len(one)-1024]
			var all []io.Reader
			for range tc.n {
				all = append(all, bytes.NewReader(one))
			}
			all = append(all, bytes.NewReader(make([]byte, 1024)))
			_, err := Read(t.Context(), t.TempDir(), io.MultiReader(all...), 1000, Options{})
			if !errors.Is(err, tc.want) {
				t.Errorf("Read: %v, want %v", err, tc.want)
			}
		})
	}
}

// TestCompareIsBounded compares a tar of symbolic links with long targets, and one
// of too many entries.
func TestCompareIsBounded(t *testing.T) {
	t.Parallel()
	var links []io.Reader
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_,.=~" {
		one := tarOf(&tar.Header{Name: string(c), Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("a/", 500_000), Format: tar.FormatPAX})
		links = append(links, bytes.NewReader(one[:len(one)-1024]))
	}
	if _, err := Compare(t.Context(), t.TempDir(), io.MultiReader(links...), Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("long targets: %v, want %v", err, ErrInvalid)
	}
	if err := (&kept{entries: maxEntries}).entry(maxEntries); !errors.Is(err, ErrInvalid) {
		t.Errorf("entry %d: %v", maxEntries+1, err)
	}
}
