package imagelist_test

import (
	"strings"
	"testing"

	"github.com/clusterimage/sealer/imagelist"
)

func TestHasObject(t *testing.T) {
	t.Parallel()
	const size = 4096
	object := "apiVersion: v1\nkind: Pod\n"
	for name, c := range map[string]struct {
		content string
		want    bool
	}{
		"object":                    {object, true},
		"empty":                     {"", false},
		"kind alone":                {"kind: Pod\n", false},
		"binary":                    {"\x00" + object, false},
		"exactly one buffer":        {strings.Repeat(" ", size-len(object)) + object, true},
		"words buffers apart":       {"kind" + strings.Repeat(" ", 3*size) + "apiVersion", true},
		"as long as is looked into": {object + strings.Repeat(" ", 32<<20-len(object)), true},
		"too long":                  {object + strings.Repeat(" ", 32<<20), false},
	} {
		if got := imagelist.HasObject(strings.NewReader(c.content), make([]byte, size)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for before := size - 30; before < size+5; before++ { // the words lie across the end of the buffer
		if !imagelist.HasObject(strings.NewReader(strings.Repeat(" ", before)+object), make([]byte, size)) {
			t.Errorf("not found after %d bytes", before)
		}
	}
}
