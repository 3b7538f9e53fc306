package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
)

// lockFile returns the path of the lock file.
func (b *builder) lockFile() string {
	if b.o.LockFile != "" {
		return b.o.LockFile
	}
	return filepath.Join(b.o.Context, imagelist.LockName)
}

// readLock reads the lock file, when the build is locked.
func (b *builder) readLock() error {
	if !b.o.Locked {
		return nil
	}
	if b.o.Lock {
		return errors.New("a build either writes the lock file or is locked to it")
	}
	content, err := os.ReadFile(b.lockFile())
	if err != nil {
		return fmt.Errorf("read the lock file (sealer build --lock writes it): %w", err)
	}
	b.locksFrom = imagelist.LocksFrom(string(content))
	b.locked, err = imagelist.ParseLock(b.lockFile(), bytes.NewReader(content))
	return err
}

// pinBase returns the reference of FROM with the digest that the lock file
// gives, when the build is locked.
func (b *builder) pinBase(name ref.Reference) (ref.Reference, error) {
	if !b.o.Locked || name.Digest != "" {
		return name, nil
	}
	d, ok := b.locked.Images[name.String()]
	switch {
	case ok:
		name.Digest = d
	case b.locksFrom:
		return name, fmt.Errorf("%w: %s %w %s: what is built on must be locked, too", ErrIncomplete, name.Familiar(), ErrNotLocked, b.lockFile())
	default:
		b.warn(fmt.Sprintf("%s is of an earlier version and does not lock FROM %s: sealer build --lock writes it anew", b.lockFile(), name.Familiar()))
	}
	return name, nil
}

// ErrNotLocked is wrapped by the error of a locked build that needs an image
// which the lock file lacks.
var ErrNotLocked = errors.New("is not in the lock file")

// pin sets the digests that the lock file gives. Every image that it lacks is
// reported.
func (b *builder) pin(reqs []mirror.Request, private string) error {
	if !b.o.Locked {
		return nil
	}
	var errs []error
	for i := range reqs {
		from := fetchedFrom(reqs[i])
		if from.Registry == private {
			continue
		}
		d, ok := b.locked.Images[from.String()]
		if !ok {
			errs = append(errs, fmt.Errorf("%s %w %s; asked for by %s", from.Familiar(), ErrNotLocked, b.lockFile(), strings.Join(reqs[i].Asked, ", ")))
			continue
		}
		reqs[i].Digest = d
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, errors.Join(errs...))
}

// fetchedFrom returns the reference that a request is fetched from.
func fetchedFrom(q mirror.Request) ref.Reference {
	if q.Source != (ref.Reference{}) {
		return q.Source
	}
	return q.Reference
}

// writeLock writes the lock file, if Options.Lock asks for it: the images
// mirrored for any platform, and the charts that were fetched.
func (b *builder) writeLock() error {
	if !b.o.Lock || b.o.DryRun {
		return nil
	}
	lock := imagelist.Lock{Images: maps.Clone(b.bases), Charts: map[string]imagelist.LockedChart{}}
	for s, f := range b.brought {
		lock.Charts[s.String()] = imagelist.LockedChart{Version: f.Pin.Version, Digest: f.Pin.Digest}
	}
	for _, im := range b.result.Images {
		if im.Mirror == nil {
			continue
		}
		maps.Copy(lock.Images, im.Mirror.Attached())
		for _, m := range im.Mirror.Images {
			if m.Err == nil && !m.SatisfiedBelow && m.Descriptor.Digest != "" {
				lock.Images[fetchedFrom(m.Request).String()] = m.Descriptor.Digest
			}
		}
	}
	if err := replaceFile(b.lockFile(), []byte(lock.String())); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// knownName is the cache file with the digests that tags had.
const knownName = "tags.json"

// earlier returns the digests that references had in earlier builds: by the
// cache, and for a build without a network by all images of the store.
func (b *builder) earlier(ctx context.Context) map[string]digest.Digest {
	known := map[string]digest.Digest{}
	if b.o.Offline {
		images, err := b.s.Images(ctx)
		if err != nil {
			b.log.Warn("read the images of the store", "error", err)
		}
		for _, im := range images {
			for k, v := range mirror.KnownFrom(im.Documents) {
				known[k] = v
			}
		}
	}
	if content, err := os.ReadFile(filepath.Join(b.s.CacheDir(), knownName)); err == nil {
		if err := json.Unmarshal(content, &known); err != nil {
			b.log.Debug("the cache of tags cannot be read", "error", err)
		}
	}
	return known
}

// remember keeps known for later builds. A cache that cannot be written is no
// fault.
func (b *builder) remember(known map[string]digest.Digest) {
	name := filepath.Join(b.s.CacheDir(), knownName)
	content, err := json.Marshal(known)
	if old, e := os.ReadFile(name); e == nil && bytes.Equal(old, content) {
		return
	}
	if err == nil {
		err = replaceFile(name, content)
	}
	if err != nil {
		b.log.Debug("write the cache of tags", "error", err)
	}
}
