package layer

import (
	"archive/tar"
	"cmp"
	"fmt"
	"strings"
)

const (
	// maxEntries bounds the entries of a layer. The largest layers of package
	// trees have some hundred thousand.
	maxEntries = 1_000_000
	// fewEntries is allowed to every blob, however small: see maxEntriesOf.
	fewEntries = 200_000
	// maxKept bounds the bytes of names, link targets and extended attributes
	// that are in memory until the last entry was read. A thousandth of that is
	// common.
	maxKept = 64 << 20
)

// Limits bound the content that a layer from elsewhere may have. The zero value of
// each field is the default.
type Limits struct {
	// Entries is the most entries of a layer's tar; 0 is 1,000,000, and 200,000
	// of a blob with fewer bytes than that.
	Entries int64
	// Names is the most bytes of names, link targets and extended attributes that
	// are in memory until a tar was read; 0 is 64 MiB.
	Names int64
	// Unpacked is the most bytes that a blob may unpack to; 0 is 200 times its
	// size and at least 1 GiB, more where the image says so.
	Unpacked int64
}

// maxEntriesOf is the most entries that a blob of compressed bytes may have. Each
// honest entry has a name and a checksum of its own, which take more than a byte:
// millions of equal entries are refused after the first fewEntries.
func maxEntriesOf(compressed int64) int64 {
	return min(maxEntries, max(fewEntries, compressed))
}

// kept counts the entries that were read from a tar, and the memory that they hold.
type kept struct {
	entries int64
	bytes   int64
	most    int64 // bytes; 0 is maxKept
}

// entry counts an entry.
func (k *kept) entry(most int64) error {
	if k.entries++; k.entries > most {
		return fmt.Errorf("%w: %w: the layer has more than %d entries", ErrInvalid, ErrLimit, most)
	}
	return nil
}

// hold counts the strings of an entry that stay in memory.
func (k *kept) hold(held ...string) error {
	for _, s := range held {
		k.bytes += int64(len(s))
	}
	if most := cmp.Or(k.most, maxKept); k.bytes > most {
		return fmt.Errorf("%w: %w: the names and extended attributes of the layer's entries exceed %d bytes", ErrInvalid, ErrLimit, most)
	}
	return nil
}

// keep returns the parts of a directory's header that are set after the last entry.
// Its strings are copies: those of archive/tar would hold the other records, too.
func (k *kept) keep(name string, h *tar.Header) (*tar.Header, error) {
	out := &tar.Header{
		Typeflag: h.Typeflag, Name: strings.Clone(name), Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime,
	}
	if err := k.hold(name); err != nil {
		return nil, err
	}
	for record, value := range h.PAXRecords {
		if attribute, ok := strings.CutPrefix(record, AttributeRecord); !ok || !KeepsAttribute(attribute) {
			continue
		}
		if err := k.hold(record, value); err != nil {
			return nil, err
		}
		if out.PAXRecords == nil {
			out.PAXRecords = map[string]string{}
		}
		out.PAXRecords[strings.Clone(record)] = strings.Clone(value)
	}
	return out, nil
}
