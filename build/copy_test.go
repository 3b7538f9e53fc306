package build_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/build"
)

// TestCopyHeredoc copies what stands in the Kubefile itself.
func TestCopyHeredoc(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nARG WHO=all\nCOPY <<motd <<'raw' etc/\nhello $WHO\nmotd\n$WHO\nraw\n"})
	r, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"etc/": "", "etc/motd": "hello all\n", "etc/raw": "$WHO\n"}
	if diff := cmp.Diff(want, tree(t, s, r)); diff != "" {
		t.Error(diff)
	}
}

// TestCopyFaultsInOrder reads directories side by side; what is wrong in them
// is told in one order.
func TestCopyFaultsInOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"Kubefile": "FROM scratch\nCOPY . all\n"}
	for i := range 40 {
		files[fmt.Sprintf("d%02d/e/imageListWithAuth.yaml", i)] = "[]\n"
		files[fmt.Sprintf("d%02d/f", i)] = "f"
	}
	dir := write(t, files)
	s := open(t)
	r, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("Kubefile:2: COPY: d%02d/e/imageListWithAuth.yaml is not copied: it holds credentials", i))
	}
	if diff := cmp.Diff(want, r.Warnings); diff != "" {
		t.Error(diff)
	}
	if n := len(tree(t, s, r)); n != 122 { // all, Kubefile, and 40 times d, e, f
		t.Errorf("%d entries", n)
	}
}
