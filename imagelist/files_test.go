package imagelist_test

import (
	"strings"
	"testing"

	"github.com/clusterimage/sealer/imagelist"
)

func TestHasObjects(t *testing.T) {
	t.Parallel()
	const size = 4096
	object := "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n"
	long := strings.Repeat("---\n"+strings.Repeat("\n", 1<<20-4), 32) // a document has its own limit
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
		"words of an object":        {"kind ontainers image apiVersion", false},
		"not its keys":              {"a: {apiVersion: v1, kind: Pod, spec: {containers: [{image: a}]}}\n", false},
		"with actions":              {strings.Replace(object, "a}", "{{ .A }}:1}", 1), true},
		"binary":                    {"\x00" + object, false},
		"binary further down":       {object + strings.Repeat("\n", 3*size) + "\x00", false},
		"exactly one buffer":        {strings.Repeat("\n", size-len(object)) + object, true},
		"words buffers apart":       {"kind: Pod\nspec: {containers: [{}]}\n" + strings.Repeat("\n", 3*size) + "image: a\napiVersion: v1\n", true},
		"as long as is looked into": {object + long[:32<<20-len(object)], true},
		"too long":                  {object + long, false},
	} {
		got, err := imagelist.HasObjects(strings.NewReader(c.content), make([]byte, size))
		if got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for before := size - len(object) - 5; before < size+5; before++ { // the words lie across the end of the buffer
		if got, err := imagelist.HasObjects(strings.NewReader(strings.Repeat("\n", before)+object), make([]byte, size)); !got || err != nil {
			t.Errorf("not found after %d bytes: %v", before, err)
		}
	}
}
