package build

import (
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/mirror"
)

// lock pins the requests to the lock file, when the build is locked.
func (b *builder) lock(reqs []mirror.Request) error { return nil }

// writeLock writes the lock file, when the build is to.
func (b *builder) writeLock(targets []*target) error { return nil }

// earlier returns the digests that references had in earlier builds.
func (b *builder) earlier() map[string]digest.Digest { return nil }
