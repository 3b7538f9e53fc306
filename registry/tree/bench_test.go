package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/tree"
)

// BenchmarkWrite writes the tree of 20 images with 150 blobs.
func BenchmarkWrite(b *testing.B) {
	d := &tree.Document{}
	dir := b.TempDir()
	for i := range 20 {
		r := tree.Repository{Name: fmt.Sprintf("library/image-%d", i)}
		for j := range 8 {
			l := digest.FromString(fmt.Sprint(i, j))
			d.Blobs = append(d.Blobs, tree.Blob{Digest: l})
			if j == 0 {
				r.Revisions = append(r.Revisions, tree.Revision{Digest: l})
				r.Tags = append(r.Tags, tree.Tag{Name: "v1", Digest: l})
			} else {
				r.Layers = append(r.Layers, l)
			}
		}
		d.Repositories = append(d.Repositories, r)
	}
	blob := filepath.Join(dir, "blob")
	if err := os.WriteFile(blob, nil, 0o444); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		out := filepath.Join(dir, fmt.Sprint(n))
		if err := tree.Prepare(out, d); err != nil {
			b.Fatal(err)
		}
		err := tree.Place(out, d, func(_ digest.Digest, path string) error { return os.Link(blob, path) })
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseSources reads, and refuses, a document of 32 MB whose references are
// all the same.
func BenchmarkParseSources(b *testing.B) {
	in := []byte(sourced(strings.Repeat(`"a.b/c:1",`, 3_300_000) + `"a.b/c:1"`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tree.Parse(in); err == nil {
			b.Fatal("it was taken")
		}
	}
}
