package build

import (
	"context"
	"errors"

	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// Build builds the image that o describes and commits it to s under o.Tags.
// Registries are asked through c. On an error nothing of the image is visible,
// and no temporary file is left; what was mirrored stays as unnamed blobs, so
// that the next build goes on from there. The error wraps ErrIncomplete when
// images are missing. The Result is never nil.
func Build(ctx context.Context, s *store.Store, c *remote.Client, o Options) (*Result, error) {
	return &Result{}, errors.ErrUnsupported
}
