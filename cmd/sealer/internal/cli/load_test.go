package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestInterruptible(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	silent, w := io.Pipe() // nobody writes
	t.Cleanup(func() { _ = w.Close() })
	r := interruptible(ctx, silent)
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	b, err := io.ReadAll(interruptible(t.Context(), strings.NewReader("all of it")))
	if err != nil || string(b) != "all of it" {
		t.Errorf("%q, %v", b, err)
	}
}
