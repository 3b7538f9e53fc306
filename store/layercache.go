package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

// A layerCache is ROOT/image/layers: of the configs of all images the IDs of their
// layers, so that prune need not read and hash every config, most of which is about
// something else. A digest always means the same layers, so that no entry is ever
// out of date.
//
// The file is a SHA-256, and all that it is of: for each config its sum, the number
// of its layers in 4 bytes, big-endian, and their sums. A file that was half-written
// is an empty cache. A nil *layerCache knows nothing and learns nothing.
type layerCache struct {
	was map[blobSum][]byte // the layers' sums, one after the other

	mu     sync.Mutex
	used   map[blobSum][]byte // of the configs that were asked for
	learnt bool               // used has one that was has not
}

type blobSum [sha256.Size]byte

// sumOf returns the sum of a digest; ok is false for one that is no SHA-256.
func sumOf(d digest.Digest) (sum blobSum, ok bool) {
	if checkDigest(d) != nil {
		return sum, false
	}
	n, err := hex.Decode(sum[:], []byte(d.Encoded()))
	return sum, err == nil && n == len(sum)
}

func (s *Store) layerCacheFile() string { return s.path("image", "layers") }

// readLayerCache returns the cache, or an empty one where there is none to trust.
func (s *Store) readLayerCache() *layerCache {
	c := &layerCache{was: map[blobSum][]byte{}, used: map[blobSum][]byte{}}
	b, err := os.ReadFile(s.layerCacheFile())
	if err != nil || len(b) < sha256.Size || sha256.Sum256(b[sha256.Size:]) != blobSum(b[:sha256.Size]) {
		return c
	}
	const head = sha256.Size + 4
	for b = b[sha256.Size:]; len(b) >= head; {
		n := int64(binary.BigEndian.Uint32(b[sha256.Size:])) * sha256.Size
		if n > int64(len(b)-head) {
			break
		}
		c.was[blobSum(b[:sha256.Size])] = b[head : head+n]
		b = b[head+n:]
	}
	return c
}

// layers returns the IDs of the layers of a config that the store has with its
// size.
func (c *layerCache) layers(s *Store, config ocispec.Descriptor) (ids []image.ConfigLayer, ok bool) {
	if c == nil {
		return nil, false
	}
	sum, ok := sumOf(config.Digest)
	sums, known := c.was[sum]
	if !ok || !known || !s.hasSized(config) {
		return nil, false
	}
	c.mu.Lock()
	c.used[sum] = sums
	c.mu.Unlock()
	for ; len(sums) > 0; sums = sums[sha256.Size:] {
		ids = append(ids, image.ConfigLayer{ID: digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sums[:sha256.Size]))})
	}
	return ids, true
}

// learn keeps the layers of a config. A config with blob manifests is not kept:
// more than the IDs of its layers is needed.
func (c *layerCache) learn(config ocispec.Descriptor, layers []image.ConfigLayer) {
	if c == nil || config.MediaType != image.MediaTypeConfig {
		return
	}
	sum, ok := sumOf(config.Digest)
	var sums []byte
	for _, l := range layers {
		id, valid := sumOf(l.ID)
		ok = ok && valid && len(l.BlobManifests) == 0
		sums = append(sums, id[:]...)
	}
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[sum], c.learnt = sums, true
}

// write replaces the file if something was learnt. It drops the configs that no
// image asked for. The file is not flushed: its SHA-256 tells a loss. The caller
// holds the lock that keeps writers away.
func (c *layerCache) write(ctx context.Context, s *Store) (err error) {
	if !c.learnt || ctx.Err() != nil {
		return nil
	}
	var b bytes.Buffer
	b.Write(make([]byte, sha256.Size))
	for sum, sums := range c.used { // in any order: nothing depends on it
		b.Write(sum[:])
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(sums)/sha256.Size)))
		b.Write(sums)
	}
	sum := sha256.Sum256(b.Bytes()[sha256.Size:])
	copy(b.Bytes(), sum[:])
	dir, err := s.tempDir("layers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	name := filepath.Join(dir.Name(), "layers")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(name, s.layerCacheFile())
}
