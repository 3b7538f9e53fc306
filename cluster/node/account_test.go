package node

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/clusterimage/sealer/cluster/kube"
)

// An answers gives one error after the other, and nil at last.
type answers struct {
	errs  []error
	asked int
}

func (a *answers) Do(context.Context, string, string, string, any, any) error {
	a.asked++
	if a.asked > len(a.errs) {
		return nil
	}
	return a.errs[a.asked-1]
}

func TestStartCommandsWaitForTheServiceAccount(t *testing.T) {
	t.Parallel()
	gone := &kube.StatusError{Code: http.StatusNotFound}
	for name, c := range map[string]struct {
		errs []error
		want int
	}{
		"there":          {nil, 1},
		"comes later":    {[]error{gone, gone}, 3},
		"no API server":  {[]error{errors.New("connection refused")}, 1},
		"not allowed to": {[]error{&kube.StatusError{Code: http.StatusForbidden}}, 1},
	} {
		a := answers{errs: c.errs}
		if err := awaitAccount(t.Context(), &a); err != nil || a.asked != c.want {
			t.Errorf("%s: asked %d times, want %d; error %v", name, a.asked, c.want, err)
		}
	}
}

func TestStartCommandsDoNotWaitForEver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	gone := &kube.StatusError{Code: http.StatusNotFound}
	if err := awaitAccount(ctx, &answers{errs: []error{gone}}); err == nil {
		t.Error("no error when the wait was stopped")
	}
}
