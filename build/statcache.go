package build

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/zeebo/blake3"
)

// A fileSum is the hash of a file's content in the cache. It is no part of any
// image, so it is BLAKE3: as safe as SHA-256, and far cheaper where the
// processor has no instructions for that.
type fileSum [32]byte

// hashers holds *blake3.Hasher, of 10 KB each.
//
//nolint:gochecknoglobals // a pool has no state that a caller could see
var hashers = sync.Pool{New: func() any { return blake3.New() }}

// hashBuffers holds a buffer for each file that is read at a time.
//
//nolint:gochecknoglobals // a pool has no state that a caller could see
var hashBuffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// newFileHash returns a hash of fileSum; endFileHash ends it.
func newFileHash() *blake3.Hasher {
	h := hashers.Get().(*blake3.Hasher)
	h.Reset()
	return h
}

func endFileHash(h *blake3.Hasher) []byte {
	defer hashers.Put(h)
	return h.Sum(nil)
}

// A statCache keeps the hashes of the files of one build context, keyed by
// their stat as in git's index, so that an unchanged file is not read.
type statCache struct {
	file string

	mu    sync.Mutex
	saved []byte   // records, sorted by name
	index []uint32 // where they begin
	next  int      // the one after that which was asked for last
	fresh map[string]statRecord
}

// A statRecord is the stat of a file at the time its content was hashed.
type statRecord struct {
	Size, Mtime, Ctime int64
	Hashed             int64 // when the hashing began; in nanoseconds, as the other times
	Inode, Device      uint64
	Sum                fileSum
}

// racy is how long before its hashing a file must have been changed to be
// trusted: file systems count time in steps of some milliseconds, and a second
// change in the same step would not show.
const racy = 50 * time.Millisecond

const (
	statMagic = "sealer stat cache 3\n"
	// A record is a statRecord, little-endian, the length of the name in four
	// bytes, and the name. After the last comes their CRC-32C.
	recordSize = 6*8 + len(fileSum{})
)

// openStatCache reads the cache of a context. One that is missing or broken is
// empty.
func openStatCache(cacheDir, contextDir string) *statCache {
	c := &statCache{fresh: map[string]statRecord{}}
	if abs, err := filepath.Abs(contextDir); err == nil {
		c.file = filepath.Join(cacheDir, "stat", digest.FromString(abs).Encoded()[:32])
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return c
	}
	if index, err := indexStats(b); err == nil {
		c.saved, c.index = b, index
	}
	return c
}

// statSum is the checksum of a cache's records. It guards against damage, not
// malice: a writer to the store needs no trick.
func statSum(records []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(records, crc32.MakeTable(crc32.Castagnoli)))
}

// indexStats returns where the records of a cache begin.
func indexStats(b []byte) ([]uint32, error) {
	end := len(b) - crc32.Size
	if !bytes.HasPrefix(b, []byte(statMagic)) || end < len(statMagic) || end > math.MaxUint32 {
		return nil, errors.New("no stat cache")
	}
	if !bytes.Equal(statSum(b[len(statMagic):end]), b[end:]) {
		return nil, errors.New("a broken stat cache")
	}
	index := make([]uint32, 0, end/(recordSize+32))
	for at := len(statMagic); at < end; {
		head := at + recordSize + 4
		if head > end {
			return nil, errors.New("a broken stat cache")
		}
		index = append(index, uint32(at))
		if at = head + int(binary.LittleEndian.Uint32(b[head-4:])); at > end {
			return nil, errors.New("a broken stat cache")
		}
	}
	return index, nil
}

// name returns the name of the i-th saved record.
func (c *statCache) name(i int) []byte {
	at := int(c.index[i]) + recordSize + 4
	return c.saved[at : at+int(binary.LittleEndian.Uint32(c.saved[at-4:]))]
}

// find returns the record of a file, and its sum, which must not be written to.
// Files are mostly asked for in order.
func (c *statCache) find(name string) (rec statRecord, sum []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rec, ok = c.fresh[name]; ok {
		return rec, bytes.Clone(rec.Sum[:]), true
	}
	i := c.next
	if i >= len(c.index) || string(c.name(i)) != name {
		i, ok = sort.Find(len(c.index), func(i int) int { return strings.Compare(name, string(c.name(i))) })
		if !ok {
			return rec, nil, false
		}
	}
	c.next = i + 1
	b := c.saved[c.index[i]:][:recordSize]
	rec.decode(b)
	return rec, b[recordSize-len(rec.Sum):], true
}

func (s *statRecord) numbers() []*int64 { return []*int64{&s.Size, &s.Mtime, &s.Ctime, &s.Hashed} }

func (s *statRecord) decode(b []byte) {
	for i, p := range s.numbers() {
		*p = int64(binary.LittleEndian.Uint64(b[i*8:]))
	}
	s.Inode, s.Device = binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])
	copy(s.Sum[:], b[48:])
}

func (s *statRecord) append(b []byte) []byte {
	for _, v := range s.numbers() {
		b = binary.LittleEndian.AppendUint64(b, uint64(*v))
	}
	b = binary.LittleEndian.AppendUint64(b, s.Inode)
	b = binary.LittleEndian.AppendUint64(b, s.Device)
	return append(b, s.Sum[:]...)
}

// record returns e's stat, without a hash.
func (e *entry) record() (statRecord, bool) {
	if e.stat == nil || e.stat.info != nil {
		return statRecord{}, false
	}
	return statRecord{
		Size: e.stat.size, Mtime: e.stat.mtime, Ctime: e.stat.ctime, Inode: e.stat.inode, Device: e.stat.device,
	}, true
}

// sum returns the hash of a file that has not changed since it was hashed.
func (c *statCache) sum(e *entry) ([]byte, bool) {
	now, ok := e.record()
	if !ok {
		return nil, false
	}
	was, sum, ok := c.find(e.path)
	now.Sum, now.Hashed = was.Sum, was.Hashed
	if !ok || was != now || max(now.Ctime, now.Mtime) > was.Hashed-int64(racy) {
		return nil, false
	}
	return sum, true
}

// put records the hash of e, whose hashing began at begun.
func (c *statCache) put(e *entry, sum []byte, begun time.Time) {
	rec, ok := e.record()
	if !ok {
		return
	}
	rec.Hashed = begun.UnixNano()
	copy(rec.Sum[:], sum)
	c.mu.Lock()
	c.fresh[e.path] = rec
	c.mu.Unlock()
}

// save writes the cache when something was learnt.
func (c *statCache) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fresh) == 0 || c.file == "" {
		return nil
	}
	fresh := slices.Sorted(maps.Keys(c.fresh))
	b := append(make([]byte, 0, len(c.saved)+len(fresh)*(recordSize+100)), statMagic...)
	learn := func() {
		rec := c.fresh[fresh[0]]
		b = binary.LittleEndian.AppendUint32(rec.append(b), uint32(len(fresh[0])))
		b = append(b, fresh[0]...)
		fresh = fresh[1:]
	}
	for i, at := range c.index {
		name := c.name(i)
		for len(fresh) > 0 && fresh[0] < string(name) {
			learn()
		}
		if len(fresh) == 0 || fresh[0] != string(name) {
			b = append(b, c.saved[at:int(at)+recordSize+4+len(name)]...)
		}
	}
	for len(fresh) > 0 {
		learn()
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	return replaceFile(c.file, append(b, statSum(b[len(statMagic):])...))
}

// hashFile reads the content of e and returns its hash.
func hashFile(e *entry) ([]byte, error) {
	if e.root == nil {
		sum := blake3.Sum256(e.data)
		return sum[:], nil
	}
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, plain(err))
	}
	defer f.Close()
	buf := hashBuffers.Get().(*[128 << 10]byte)
	defer hashBuffers.Put(buf)
	h := newFileHash()
	n, err := copyContent(io.Discard, f, e.size+1, h, func() []byte { return buf[:] })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, plain(err))
	}
	if n != e.size {
		return nil, fmt.Errorf("%s: %w", e.path, errChanged)
	}
	return endFileHash(h), nil
}
