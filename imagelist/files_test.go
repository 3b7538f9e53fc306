package imagelist_test

import (
	"io"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/imagelist"
)

func TestMayHavePods(t *testing.T) {
	t.Parallel()
	const size = 4096
	object := "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n"
	for name, c := range map[string]struct {
		content string
		want    bool
	}{
		"object":                    {object, true},
		"empty":                     {"", false},
		"kind alone":                {"kind: Pod\nspec: {containers: [{image: a}]}\n", false},
		"no pods":                   {"apiVersion: v1\nkind: ConfigMap\ndata: {a: image}\n", false},
		"init containers":           {`{"apiVersion":"v1","kind":"Pod","spec":{"initContainers":[{"image":"a"}]}}`, true},
		"a definition":              {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n", true},
		"of a family":               {"apiVersion: kubevirt.io/v1\nkind: KubeVirt\n", true},
		"binary":                    {"\x00" + object, false},
		"exactly one buffer":        {strings.Repeat(" ", size-len(object)) + object, true},
		"words buffers apart":       {"kind ontainers" + strings.Repeat(" ", 3*size) + "image apiVersion", true},
		"as long as is looked into": {object + strings.Repeat(" ", 32<<20-len(object)), true},
		"too long":                  {object + strings.Repeat(" ", 32<<20), false},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.content), io.MultiReader(strings.NewReader(c.content))} { // with Seek, and without
			if got := imagelist.MayHavePods(r, make([]byte, size)); got != c.want {
				t.Errorf("%s: %T: %v", name, r, got)
			}
		}
	}
	for before := size - len(object) - 5; before < size+5; before++ { // the words lie across the end of the buffer
		if !imagelist.MayHavePods(strings.NewReader(strings.Repeat(" ", before)+object), make([]byte, size)) {
			t.Errorf("not found after %d bytes", before)
		}
	}
}
