// Package inventory is the list of the blobs that a place has: digests and
// sizes, and names only where they were asked for. It is small, so that it can
// leave an air gap by any way, and it tells a save which blobs need not travel.
//
// The format, all integers unsigned LEB128 as encoding/binary writes them:
//
//	"sealer inventory 1\n"
//	number of blobs, then for each, in the order of their digests:
//	    32 bytes SHA-256, the size in bytes
//	number of names, then for each, in the order of the names:
//	    length, the name, 32 bytes SHA-256 of its manifest or index
//	32 bytes SHA-256 of everything before
//
// A blob takes 33 to 41 bytes, of which 41 would need a blob of 2^63 bytes; one
// of less than 32 GiB takes at most 37.
package inventory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrInvalid is wrapped by errors about bytes that are no inventory, or a damaged
// one, or one of a version that this package does not read.
var ErrInvalid = errors.New("invalid inventory")

// MediaType is the media type of an inventory that travels as a blob, as in a
// delta.
const MediaType = "application/vnd.sealer.inventory.v1"

const (
	magic   = "sealer inventory "
	version = "1\n"

	// maxBlobs bounds the memory that an inventory takes: 4 million blobs, 160 MB.
	maxBlobs = 4 << 20
	maxName  = 1 << 10

	// MaxSize is the most bytes that Read reads.
	MaxSize = maxBlobs * 41
)

// A Blob is a blob that the place has, whole.
type Blob struct {
	Digest digest.Digest `json:"digest"` // SHA-256
	Size   int64         `json:"size"`   // bytes
}

// A Name is a name of an image in the place.
type Name struct {
	Name   string        `json:"name"`
	Digest digest.Digest `json:"digest"` // of the manifest or the index
}

// An Inventory lists the content of a place. Encode and Read keep Blobs sorted by
// digest and Names by name, each once.
type Inventory struct {
	Blobs []Blob `json:"blobs"`
	Names []Name `json:"names,omitempty"`
}

// Size returns the sum of the blobs' bytes.
func (v *Inventory) Size() int64 {
	var n int64
	for _, b := range v.Blobs {
		n += b.Size
	}
	return n
}

// A Set answers which blobs are in inventories.
type Set map[digest.Digest]int64

// Add adds the blobs of v. Of a digest with two sizes, which only a false
// inventory has, no size is right, and Has finds neither.
func (s Set) Add(v *Inventory) {
	for _, b := range v.Blobs {
		if have, ok := s[b.Digest]; ok && have != b.Size {
			b.Size = -1
		}
		s[b.Digest] = b.Size
	}
}

// Has reports whether a blob of this digest and this size is in s. A blob that the
// place has with another size is damaged there.
func (s Set) Has(d digest.Digest, size int64) bool {
	have, ok := s[d]
	return ok && have == size && size >= 0
}

// Encode sorts v, drops repetitions and returns its bytes. The error wraps
// ErrInvalid for a digest that is not SHA-256, a negative size, two sizes of one
// blob, or a name without text.
func (v *Inventory) Encode() ([]byte, error) {
	slices.SortFunc(v.Blobs, func(a, b Blob) int { return cmp.Compare(a.Digest, b.Digest) })
	v.Blobs = slices.Compact(v.Blobs)
	slices.SortFunc(v.Names, func(a, b Name) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	v.Names = slices.Compact(v.Names)
	if len(v.Blobs) > maxBlobs || len(v.Names) > maxBlobs {
		return nil, fmt.Errorf("%w: %d blobs and %d names, of at most %d each", ErrInvalid, len(v.Blobs), len(v.Names), maxBlobs)
	}
	out := make([]byte, 0, len(magic)+len(version)+38*len(v.Blobs)+sha256.Size+16)
	out = append(out, magic+version...)
	out = binary.AppendUvarint(out, uint64(len(v.Blobs)))
	for i, b := range v.Blobs {
		if b.Size < 0 || i > 0 && v.Blobs[i-1].Digest == b.Digest {
			return nil, fmt.Errorf("%w: blob %s of %d bytes", ErrInvalid, b.Digest, b.Size)
		}
		raw, err := rawDigest(b.Digest)
		if err != nil {
			return nil, err
		}
		out = append(out, raw...)
		out = binary.AppendUvarint(out, uint64(b.Size))
	}
	out = binary.AppendUvarint(out, uint64(len(v.Names)))
	for i, n := range v.Names {
		if err := checkName(n.Name); err != nil || i > 0 && v.Names[i-1].Name == n.Name {
			return nil, fmt.Errorf("%w: name %q", ErrInvalid, n.Name)
		}
		raw, err := rawDigest(n.Digest)
		if err != nil {
			return nil, err
		}
		out = binary.AppendUvarint(out, uint64(len(n.Name)))
		out = append(append(out, n.Name...), raw...)
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

func rawDigest(d digest.Digest) ([]byte, error) {
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return nil, fmt.Errorf("%w: digest %q is not SHA-256", ErrInvalid, d)
	}
	return hex.DecodeString(d.Encoded())
}

// checkName refuses names that could spoil a terminal or a line of output.
func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ErrInvalid
	}
	return nil
}

// Is reports whether bytes that begin with head are an inventory, of any version.
func Is(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// HeadSize is the number of bytes that Is needs.
const HeadSize = len(magic)

// Read reads an inventory to its end. The error wraps ErrInvalid and says whether
// the bytes are no inventory, of another version, cut short or damaged; or it is
// r's.
func Read(r io.Reader) (*Inventory, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	return Parse(b)
}

// Parse is Read of bytes in memory.
func Parse(b []byte) (*Inventory, error) {
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrInvalid, magic)
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if rest, ok = bytes.CutPrefix(rest, []byte(version)); !ok {
		if len(line) > 20 {
			line = line[:20]
		}
		return nil, fmt.Errorf("%w: it is of version %q, and this sealer reads version %s", ErrInvalid, line, strings.TrimSpace(version))
	}
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrInvalid, MaxSize)
	}
	if len(rest) < sha256.Size {
		return nil, errShort
	}
	d := decoder{rest: rest[:len(rest)-sha256.Size]}
	v := d.inventory()
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	sound := bytes.Equal(sum[:], b[len(b)-sha256.Size:])
	switch {
	case sound && d.err != nil:
		return nil, d.err
	case sound && len(d.rest) > 0:
		return nil, fmt.Errorf("%w: %d bytes follow its last name", ErrInvalid, len(d.rest))
	case !sound && errors.Is(d.err, errShort):
		return nil, errShort
	case !sound:
		return nil, fmt.Errorf("%w: its checksum is wrong: it was damaged on the way, or cut short", ErrInvalid)
	}
	return v, nil
}

var errShort = fmt.Errorf("%w: it is cut short", ErrInvalid)

// A decoder reads the fields of an inventory until the first error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) inventory() *Inventory {
	v := &Inventory{Blobs: make([]Blob, 0, d.count(sha256.Size+1))}
	for range cap(v.Blobs) {
		b := Blob{Digest: d.digest(), Size: d.number()}
		if n := len(v.Blobs); d.err == nil && n > 0 && v.Blobs[n-1].Digest >= b.Digest {
			d.err = fmt.Errorf("%w: blob %s is not in order", ErrInvalid, b.Digest)
		}
		if d.err != nil {
			return nil
		}
		v.Blobs = append(v.Blobs, b)
	}
	for range d.count(sha256.Size + 2) {
		name := string(d.bytes(int(min(d.number(), maxName+1))))
		n := Name{Name: name, Digest: d.digest()}
		if k := len(v.Names); d.err == nil && (checkName(name) != nil || k > 0 && v.Names[k-1].Name >= name) {
			d.err = fmt.Errorf("%w: name %q", ErrInvalid, name)
		}
		if d.err != nil {
			return nil
		}
		v.Names = append(v.Names, n)
	}
	return v
}

// count reads how many items of at least size bytes follow.
func (d *decoder) count(size int) int {
	n := d.number()
	if d.err == nil && n > int64(len(d.rest)/size) {
		d.err = errShort
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *decoder) number() int64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	switch {
	case n == 0:
		d.err = errShort
	case n < 0 || v > math.MaxInt64:
		d.err = fmt.Errorf("%w: a number beyond 2^63", ErrInvalid)
	case n > 1 && d.rest[n-1] == 0: // one inventory has one form, and so one digest
		d.err = fmt.Errorf("%w: a number that is not in its shortest form", ErrInvalid)
	default:
		d.rest = d.rest[n:]
		return int64(v)
	}
	return 0
}

func (d *decoder) bytes(n int) []byte {
	if d.err == nil && n > len(d.rest) {
		d.err = errShort
	}
	if d.err != nil {
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) digest() digest.Digest {
	b := d.bytes(sha256.Size)
	if b == nil {
		return ""
	}
	return digest.NewDigestFromBytes(digest.SHA256, b)
}
