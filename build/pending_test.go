package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/build"
)

// Layers that are written at once stand in the order of the Kubefile, whichever
// is done first, and ENV between them changes nothing.
func TestLayersInOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"big/f": strings.Repeat("0123456789abcdef", 1<<20)}
	kubefile := "FROM scratch\nCOPY big .\n"
	want := []string{"big ."}
	for i := range 9 {
		files[fmt.Sprintf("d%d/same", i)] = fmt.Sprint(i)
		kubefile += fmt.Sprintf("ENV N=%d\nCOPY d%[1]d/same .\n", i)
		want = append(want, fmt.Sprintf("d%d/same .", i))
	}
	files["Kubefile"] = kubefile
	s := open(t)
	dir := write(t, files)
	for _, again := range []bool{false, true} {
		r, err := run(t.Context(), t, s, dir, build.Options{NoCache: again})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range r.Images[0].Config.Layers {
			got = append(got, l.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if same := tree(t, s, r)["same"]; same != "8" {
			t.Errorf("the file of the last COPY holds %q", same)
		}
	}
}
