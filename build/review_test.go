package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// find returns the references that discovery sees, and its warnings.
func find(t *testing.T, s *store.Store, dir string) (images []string) {
	t.Helper()
	c, err := remote.New(remote.Options{RegistriesConf: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	r, err := build.Find(t.Context(), s, c, build.Options{Context: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, im := range r.Images() {
		images = append(images, im.Reference.Familiar())
	}
	return images
}

// TestOneLayerChanges recalls of the layers that stay what is in them, and no
// more than what is still seen of it.
func TestOneLayerChanges(t *testing.T) {
	t.Parallel()
	pod := func(image string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: " + image + "}]}\n"
	}
	s := open(t)
	dir := write(t, map[string]string{
		"Kubefile": "FROM scratch\nCOPY etc .\nCOPY opt .\nCOPY over/* etc\n",
		"etc/one":  pod("one:v1"), "etc/two": pod("two:v1"), "opt/three": pod("three:v1"), "over/two": "nothing",
	})
	for _, step := range []struct {
		file, content string
		want          []string
	}{
		{"opt/text", "text", []string{"one:v1", "three:v1"}},
		{"opt/three", pod("four:v1"), []string{"four:v1", "one:v1"}},
		{"opt/five", pod("five:v1"), []string{"five:v1", "four:v1", "one:v1"}},
		{"over/two", pod("six:v1"), []string{"five:v1", "four:v1", "one:v1", "six:v1"}},
		{"over/two", "nothing", []string{"five:v1", "four:v1", "one:v1"}},
	} {
		if err := os.WriteFile(filepath.Join(dir, step.file), []byte(step.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, find(t, s, dir)); diff != "" {
			t.Errorf("%s: %s", step.file, diff)
		}
	}
}

// TestReviewSeesTheMergedRootfs warns of a script as the cluster gets it.
func TestReviewSeesTheMergedRootfs(t *testing.T) {
	t.Parallel()
	bad := "#!/bin/sh\nwhile true; do\n  s=$(kubectl get clusterpolicy -o jsonpath={.items[*].status.ready})\n  sleep 1\ndone\n"
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nCOPY etc .\nCOPY over/* etc\n", "etc/wait.sh": bad, "over/x": "x"})
	warned := func() bool {
		r, err := run(t.Context(), t, s, dir, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(r.Warnings, "\n"), "etc/wait.sh")
	}
	if !warned() {
		t.Error("no warning")
	}
	if err := os.WriteFile(filepath.Join(dir, "over/wait.sh"), []byte("#!/bin/sh\ntrue\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if warned() {
		t.Error("a warning of a script that was replaced")
	}
}
