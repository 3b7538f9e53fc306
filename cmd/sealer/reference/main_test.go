package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/reference.md anew")

const file = "../../../docs/reference.md"

func TestReferenceIsCurrent(t *testing.T) {
	want, err := page(tree())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference.md is not current; run: make reference\n%s", diff)
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if err := write("", dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sealer.1", "sealer-build.1", "sealer-registry-serve.1"} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
