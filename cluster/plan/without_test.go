package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutKeepsTheOrder(t *testing.T) {
	t.Parallel()
	p := &Plan{Steps: []Step{
		{ID: "image"},
		{ID: "program", Needs: []string{"image"}},
		{ID: "names", Needs: []string{"program"}, After: []string{"image"}},
		{ID: "rootfs", Needs: []string{"names", "program"}},
		{ID: "wait", After: []string{"names"}},
		{ID: "guest", Needs: []string{"rootfs"}, After: []string{"wait"}},
	}}
	got := p.Without(map[string]bool{"program": true, "names": true, "wait": true})
	want := []Step{
		{ID: "image"},
		{ID: "rootfs", Needs: []string{"image"}, After: []string{"image"}},
		{ID: "guest", Needs: []string{"rootfs"}, After: []string{"image"}},
	}
	if diff := cmp.Diff(want, got.Steps); diff != "" || got.Done != 3 {
		t.Error(got.Done, diff)
	}
}
