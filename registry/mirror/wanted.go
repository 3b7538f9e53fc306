package mirror

import (
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/remote"
)

// missing returns the blobs that the sink lacks, each once over all images, in
// the order in which the images name them, and then those of the attachments. An
// attachment that contradicts an image is left out: it must not fail the image.
func (e *engine) missing(ctx context.Context) ([]remote.Wanted, error) {
	w := wanted{sink: e.sink, at: map[digest.Digest]int{}, size: map[digest.Digest]int64{}}
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.Err != nil {
			continue
		}
		origin := remote.Origin{Client: e.c.As(im.Credential), Image: im.source()}
		if im.Err = w.contradiction(im.Blobs); im.Err != nil {
			continue
		}
		if err := w.add(ctx, origin, im.Blobs); err != nil {
			return nil, fmt.Errorf("mirror %s: %w", im.Request, err)
		}
	}
	for i := range e.result.Images {
		im := &e.result.Images[i]
		var keep []Attached
		for _, a := range im.Attached {
			if im.Err != nil {
				break
			}
			if err := w.contradiction(a.Blobs); err != nil {
				e.note(im, fmt.Errorf("%s: %w", a.Tag, err))
				continue
			}
			if err := w.add(ctx, remote.Origin{Client: e.c.As(im.Credential), Image: im.source()}, a.Blobs); err != nil {
				return nil, fmt.Errorf("mirror %s: %s: %w", im.Request, a.Tag, err)
			}
			keep = append(keep, a)
		}
		im.Attached = keep
	}
	return w.out, nil
}

// wanted collects the blobs that the sink lacks.
type wanted struct {
	sink remote.Sink
	out  []remote.Wanted
	at   map[digest.Digest]int // index in out, or -1 when the sink has it
	size map[digest.Digest]int64
}

// contradiction returns an error when a manifest before said another size of one
// of the blobs.
func (w *wanted) contradiction(blobs []ocispec.Descriptor) error {
	for _, d := range blobs {
		if size, seen := w.size[d.Digest]; seen && size != d.Size {
			return fmt.Errorf("blob %s: its manifest says %d bytes, another's says %d: %w", d.Digest, d.Size, size, remote.ErrDigest)
		}
	}
	return nil
}

func (w *wanted) add(ctx context.Context, from remote.Origin, blobs []ocispec.Descriptor) error {
	for _, d := range blobs {
		n, seen := w.at[d.Digest]
		if !seen {
			has, err := w.sink.HasBlob(ctx, d.Digest)
			if err != nil {
				return fmt.Errorf("blob %s: %w", d.Digest, err)
			}
			if n = -1; !has {
				n = len(w.out)
				w.out = append(w.out, remote.Wanted{Descriptor: d})
			}
			w.at[d.Digest], w.size[d.Digest] = n, d.Size
		}
		if n >= 0 {
			w.out[n].From = append(w.out[n].From, from)
		}
	}
	return nil
}
