package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A summaryCache is ROOT/image/summaries: for the images of the index the parts
// of their manifests and configs that a listing shows. The file is a SHA-256 and
// the gob that it is of: a file that was half-written is an empty cache.
type summaryCache struct {
	Version int
	Blobs   []cachedBlob // which the images name by number
	Images  map[digest.Digest]cachedImage

	numbers map[cachedBlob]uint32 // of Blobs; nil before it is needed
}

// summaryVersion is the version of the form of a summaryCache.
const summaryVersion = 2

// A cachedImage is the platforms of an image: a manifest, or those of an index.
type cachedImage []cachedPlatform

// A cachedPlatform is an image for one platform.
type cachedPlatform struct {
	Manifest digest.Digest
	Created  time.Time
	Type     string
	Platform ocispec.Platform
	Blobs    []uint32 // the manifest, the config, the layers; none when the store lacks the manifest
}

func (p cachedPlatform) present() bool { return len(p.Blobs) > 0 }

// A cachedBlob is a SHA-256 digest and the size of its blob in bytes.
type cachedBlob struct {
	Sum  [sha256.Size]byte
	Size int64
}

func (b cachedBlob) digest() digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(b.Sum[:]))
}

func newSummaryCache() *summaryCache {
	return &summaryCache{Version: summaryVersion, Images: map[digest.Digest]cachedImage{}}
}

// blob returns the number of a blob, whose digest was checked.
func (k *summaryCache) blob(d ocispec.Descriptor) uint32 {
	b := cachedBlob{Size: d.Size}
	_, _ = hex.Decode(b.Sum[:], []byte(d.Digest.Encoded()))
	if k.numbers == nil {
		k.numbers = make(map[cachedBlob]uint32, len(k.Blobs))
		for i, b := range k.Blobs {
			k.numbers[b] = uint32(i)
		}
	}
	n, ok := k.numbers[b]
	if !ok {
		n = uint32(len(k.Blobs))
		k.numbers[b] = n
		k.Blobs = append(k.Blobs, b)
	}
	return n
}

// only returns a cache of the images that are here.
func (k *summaryCache) only(here map[digest.Digest]bool) *summaryCache {
	out := newSummaryCache()
	moved := make([]uint32, len(k.Blobs)) // one more than the number in out; 0 is none yet
	for id, c := range k.Images {
		if !here[id] {
			continue
		}
		for _, p := range c {
			for i, b := range p.Blobs {
				if moved[b] == 0 {
					out.Blobs = append(out.Blobs, k.Blobs[b])
					moved[b] = uint32(len(out.Blobs))
				}
				p.Blobs[i] = moved[b] - 1
			}
		}
		out.Images[id] = c
	}
	return out
}

// readSummaries returns the cache, or an empty one where there is none to trust.
func (s *Store) readSummaries() *summaryCache {
	b, err := os.ReadFile(s.path("image", "summaries"))
	if err != nil || len(b) < sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b[:sha256.Size]) {
		return newSummaryCache()
	}
	k := newSummaryCache()
	if err := gob.NewDecoder(bytes.NewReader(b[sha256.Size:])).Decode(k); err != nil || k.Version != summaryVersion {
		return newSummaryCache()
	}
	for _, c := range k.Images {
		for _, p := range c {
			for _, b := range p.Blobs {
				if int(b) >= len(k.Blobs) {
					return newSummaryCache()
				}
			}
		}
	}
	return k
}

// writeSummaries replaces the cache. It is not flushed: its SHA-256 tells a loss.
func (s *Store) writeSummaries(ctx context.Context, k *summaryCache) (err error) {
	var b bytes.Buffer
	b.Write(make([]byte, sha256.Size))
	if err := gob.NewEncoder(&b).Encode(k); err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes()[sha256.Size:])
	copy(b.Bytes(), sum[:])
	f, err := s.tempFile(ctx, "summaries")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(f)) }()
	if _, err := f.Write(b.Bytes()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path("image", "summaries"))
}
