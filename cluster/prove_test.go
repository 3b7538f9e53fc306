package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	digestpkg "github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/image"
)

// An apiOf answers the lists of pods with its pods, one answer after the other,
// the last one for ever.
type apiOf struct {
	pods  []string
	lists int
	err   error
}

func (a *apiOf) List(_ context.Context, path string, each func(json.RawMessage) error) error {
	if a.err != nil || path != "/api/v1/pods" {
		return a.err
	}
	p := a.pods[min(a.lists, len(a.pods)-1)]
	a.lists++
	return each(json.RawMessage(p))
}

// blob is a store with one manifest.
type blob string

func (blob) HasBlob(context.Context, digestpkg.Digest) (bool, error) { return true, nil }
func (b blob) ReadBlob(context.Context, digestpkg.Digest, int64) ([]byte, error) {
	return []byte(b), nil
}

func TestSettled(t *testing.T) {
	t.Parallel()
	const (
		config   = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		waits    = `{"metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`
		runs     = `{"metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]},"status":{"containerStatuses":[{"name":"c","imageID":"` + config + `","state":{"running":{}}}]}}`
		stranger = `{"metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"name":"c","image":"foreign:1"}]}}`
	)
	b := blob(`{"config":{"digest":"` + config + `"}}`)
	c := image.Config{Images: []image.MirroredImage{{Reference: image.ParseName("nginx:1"), Digest: digestpkg.FromString(string(b))}}}
	inside, err := proof.Read(t.Context(), "app:v1", digestpkg.FromString("app"), &c, b)
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		api                               apiOf
		patience                          time.Duration
		lists, inside, waiting, strangers int
	}{
		"at once":                     {apiOf{pods: []string{runs}}, time.Hour, 1, 1, 0, 0},
		"a container starts":          {apiOf{pods: []string{waits, runs}}, time.Hour, 2, 1, 0, 0},
		"no patience":                 {apiOf{pods: []string{waits, runs}}, 0, 1, 0, 1, 0},
		"a stranger ends the wait":    {apiOf{pods: []string{stranger, runs}}, time.Hour, 1, 0, 0, 1},
		"the cluster does not answer": {api: apiOf{err: refused}, patience: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := settled(t.Context(), &test.api, []proof.Carried{inside}, nil, test.patience)
			if !errors.Is(err, test.api.err) {
				t.Fatalf("error %v, want %v", err, test.api.err)
			}
			if err != nil {
				return
			}
			if test.api.lists != test.lists || len(r.Containers) != test.inside || len(r.Waiting) != test.waiting || len(r.Strangers) != test.strangers {
				t.Errorf("%d looks, %d containers inside, %d waiting, %d strangers; want %+v", test.api.lists, len(r.Containers), len(r.Waiting), len(r.Strangers), test)
			}
		})
	}
}

func TestSettledStopsWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	waits := apiOf{pods: []string{`{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`}}
	c := image.Config{Images: []image.MirroredImage{{Reference: image.ParseName("nginx:1"), Digest: digestpkg.FromString("{}")}}}
	inside, err := proof.Read(t.Context(), "app:v1", digestpkg.FromString("app"), &c, blob("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settled(ctx, &waits, []proof.Carried{inside}, nil, time.Hour); !errors.Is(err, interrupted) {
		t.Errorf("error %v, want %v", err, interrupted)
	}
}
