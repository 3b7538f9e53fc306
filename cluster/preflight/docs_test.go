package preflight

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

// The table of docs/hosts.md has every check, in order, with its threshold.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.*\\| (?:`([^`|]+)` )?\\|$").FindAllSubmatch(text, -1) {
		got = append(got, fmt.Sprintf("%s %s", m[1], m[2]))
	}
	for _, name := range Names() {
		want = append(want, fmt.Sprintf("%s %s", name, thresholds()[name]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	f, err := spec.Parse("docs/hosts.md", example[1])
	if err != nil {
		t.Fatal(err)
	}
	in := good()
	in.File = f
	in.Nodes[0].Swap = 1
	if r, err := Run(in); err != nil || r.Err() != nil {
		t.Error(err, r.Err())
	}
}
