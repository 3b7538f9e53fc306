package build

import (
	"context"
	"errors"
	"strings"

	"github.com/clusterimage/sealer/kubefile"
)

// isGit reports whether a source of COPY is a git repository.
func isGit(src string) bool {
	return strings.HasPrefix(src, "git@") || strings.HasPrefix(src, "git://") || strings.HasPrefix(src, "ssh://") ||
		kubefile.IsURL(src) && strings.HasSuffix(strings.SplitN(src, "#", 2)[0], ".git")
}

func (b *builder) fetch(ctx context.Context, src string, in *kubefile.Copy) ([]input, error) {
	return nil, errors.ErrUnsupported
}
