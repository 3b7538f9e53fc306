package build

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
)

func newTarget() *platformBuild {
	return &platformBuild{b: &builder{file: &kubefile.File{Name: "Kubefile"}}}
}

// Of layers that are written at once the faults of all are told, in the order
// of the Kubefile, whichever is first; what could be written stays.
func TestSettle(t *testing.T) {
	t.Parallel()
	target := newTarget()
	one, two := make(chan error, 1), make(chan error, 1)
	for i, end := range []chan error{one, two} {
		err := target.begin(t.Context(), &kubefile.Copy{At: kubefile.At(i + 1)}, image.ConfigLayer{}, func() (image.Layer, error) {
			return image.Layer{}, <-end
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	two <- errors.New("two")
	err := target.begin(t.Context(), &kubefile.Copy{At: 3}, image.ConfigLayer{}, func() (image.Layer, error) {
		return image.Layer{Size: 3}, nil // once the second has ended
	})
	if err != nil {
		t.Fatal(err)
	}
	one <- errors.New("one")
	if diff := cmp.Diff("Kubefile:1: COPY: one\nKubefile:2: COPY: two", target.settle().Error()); diff != "" {
		t.Error(diff)
	}
	if len(target.layers) != 1 || target.layers[0].Size != 3 {
		t.Errorf("layers %v", target.layers)
	}
	if err := target.settle(); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

// A build that is interrupted does not wait until it may begin a layer.
func TestBeginInterrupted(t *testing.T) {
	t.Parallel()
	target := newTarget()
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan struct{})
	for range layersAtOnce {
		err := target.begin(ctx, &kubefile.Copy{}, image.ConfigLayer{}, func() (image.Layer, error) {
			<-end
			return image.Layer{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("interrupted")
	cancel(cause)
	if err := target.begin(ctx, &kubefile.Copy{}, image.ConfigLayer{}, nil); !errors.Is(err, cause) {
		t.Error(err)
	}
	close(end)
	if err := target.settle(); err != nil {
		t.Error(err)
	}
}
