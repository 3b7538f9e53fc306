package cli

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// imageGap is a gap that is recorded in an image, for one platform.
type imageGap struct {
	Platform string `json:"platform"`
	image.Gap
}

// String returns one line. It says so if the gap is declared, and so no fault.
func (g imageGap) String() string {
	word := g.Grade + " gap"
	if g.Declared != "" {
		word = "declared gap"
	}
	return fmt.Sprintf("%s: %s: %s", word, g.Platform, g.Gap)
}

func printedGaps(gaps []transfer.Gap) []imageGap {
	var out []imageGap
	for _, g := range gaps {
		out = append(out, imageGap{platform.String(g.Platform), g.Gap})
	}
	return out
}

// openIn counts the open gaps, which make an image incomplete.
func openIn(gaps []imageGap) (n int) {
	for _, g := range gaps {
		if g.Blocks() {
			n++
		}
	}
	return n
}

// tellGaps prints the undeclared gaps of images on stderr: a registry may lack
// some images that the cluster will ask for.
func (a *app) tellGaps(ctx context.Context, s *store.Store, names []string, p *ocispec.Platform) error {
	for _, name := range names {
		images, err := transfer.Images(ctx, s, name, p)
		if err != nil {
			return notFound(err)
		}
		for _, g := range printedGaps(transfer.Gaps(images)) {
			if g.Declared == "" {
				printf(a.Err, "Warning: %s: %s\n", name, g)
			}
		}
	}
	return nil
}

// counted returns "1 gap is" or "2 gaps are".
func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// openGaps returns an error with exit code 3 if a scan left gaps open.
func openGaps(found *imagelist.Result, allowed bool) error {
	n := 0
	for _, g := range found.Gaps {
		if g.Blocks() {
			n++
		}
	}
	if n == 0 || allowed {
		return nil
	}
	return advise(incompleteError{fmt.Errorf("%s open: the images behind are not known", counted(n, "gap is", "gaps are"))},
		"Close them as each line above says, or go on with --allow-gaps")
}
