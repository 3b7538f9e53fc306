package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// lines are changes as text.
func lines(list []store.Change) []string {
	var out []string
	for _, c := range list {
		out = append(out, strings.Join(strings.Fields(c.Kind+" "+c.Name+" "+c.From+" "+c.To), " "))
	}
	return out
}

// TestDiffFiles compares files of every kind.
func TestDiffFiles(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	long := strings.Repeat("x", layer.BufferSize)
	shared := addLayer(t, s, file("shared", "1"))
	commitImage(t, s, "a", image.Config{}, shared, addLayer(t, s,
		file("same", "1"), file("content", "1"), file("size", "1"), entry{name: "mode", content: "1", mode: 0o600}, entry{name: "link", link: "a"}, file("gone", "1"),
		entry{name: "type", link: "a"}, file("dir/f", "1"), entry{name: "empty/"}, file("end", long+"1"), file("long", long)))
	commitImage(t, s, "b", image.Config{}, shared, addLayer(t, s,
		file("same", "1"), file("content", "2"), file("size", "12"), entry{name: "mode", content: "1", mode: 0o644}, entry{name: "link", link: "b"}, file("new", "12"),
		file("type", "1"), file("dir/f", "1"), entry{name: "empty/", mode: 0o700}, file("end", long+"2"), file("long", long)))
	d, err := s.Diff(t.Context(), "a", "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"changed content -rw-r--r-- 1 bytes -rw-r--r-- 1 bytes", "changed empty drwxr-xr-x drwx------", "changed end -rw-r--r-- 131073 bytes -rw-r--r-- 131073 bytes",
		"removed gone -rw-r--r-- 1 bytes", "changed link -> a -> b", "changed mode -rw------- 1 bytes -rw-r--r-- 1 bytes", "added new -rw-r--r-- 2 bytes",
		"changed size -rw-r--r-- 1 bytes -rw-r--r-- 2 bytes", "changed type -> a -rw-r--r-- 1 bytes",
	}
	if diff := cmp.Diff(want, lines(d.Files)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDiffCommands compares the commands of a start, in their order.
func TestDiffCommands(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	l := addLayer(t, s, file("a", "1"))
	commitImage(t, s, "empty", image.Config{}, l)
	commitImage(t, s, "a", image.Config{Cmd: image.Commands{Parent: []string{"one", "two"}, Current: []string{"three", "four"}}}, l)
	commitImage(t, s, "b", image.Config{Cmd: image.Commands{Current: []string{"two", "new", "four", "last"}}}, l)
	commitImage(t, s, "launch", image.Config{Launch: &image.Launch{Apps: []string{"web"}, Cmds: []string{"two"}}}, l)
	commitImage(t, s, "turned", image.Config{Cmd: image.Commands{Current: []string{"four", "three", "two", "one"}}}, l)
	for _, tc := range []struct {
		from, to string
		want     []string
	}{
		{"a", "a", nil},
		{"empty", "empty", nil},
		{"empty", "launch", []string{"added LAUNCH web", "added two"}},
		{"launch", "empty", []string{"removed LAUNCH web", "removed two"}},
		{"a", "b", []string{"removed one", "removed three", "added new", "added last"}},
		{"b", "a", []string{"added one", "removed new", "added three", "removed last"}},
		{"a", "launch", []string{"removed one", "added LAUNCH web", "removed three", "removed four"}},
		{"a", "turned", []string{"removed one", "removed two", "removed three", "added three", "added two", "added one"}},
	} {
		d, err := s.Diff(t.Context(), tc.from, tc.to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, lines(d.Commands)); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", tc.from, tc.to, diff)
		}
	}
}

// putManifest puts a manifest, or an index, of what it names.
func putManifest(t *testing.T, s *store.Store, mediaType string, m any) ocispec.Descriptor {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d := blob(t, s, string(b))
	d.MediaType = mediaType
	return d
}

// TestDiffCarry counts the blobs that a place with the first image lacks.
func TestDiffCarry(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	// container returns the layer of a container image for one platform of two.
	container := func(content string) image.Layer {
		config, common, own := blob(t, s, "config "+content), blob(t, s, "common"), blob(t, s, "own "+content)
		amd := putManifest(t, s, ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{common, own}})
		arm := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("not mirrored"), Size: 1}
		top := putManifest(t, s, ocispec.MediaTypeImageIndex, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{amd, arm, amd}})
		doc := &tree.Document{Repositories: []tree.Repository{{Name: "team/app", Layers: []digest.Digest{config.Digest, common.Digest, own.Digest},
			Tags: []tree.Tag{{Name: "v1", Digest: top.Digest, Sources: []ref.Reference{{Registry: "docker.io", Repository: "team/app", Tag: "v1"}}}}}}}
		for _, d := range []ocispec.Descriptor{amd, top} {
			doc.Repositories[0].Revisions = append(doc.Repositories[0].Revisions, tree.Revision{Digest: d.Digest, MediaType: d.MediaType, Size: d.Size})
		}
		for _, d := range []ocispec.Descriptor{config, common, own, amd, top} {
			doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d.Digest, Size: d.Size})
		}
		l, err := s.WriteRegistryLayer(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	base := addLayer(t, s, file("a", "1"))
	commitImage(t, s, "a", image.Config{}, base, container("1"))
	commitImage(t, s, "b", image.Config{}, base, container("2"))
	commitImage(t, s, "none", image.Config{}, base)

	inside := func(d digest.Digest) int64 {
		b, err := s.ReadBlob(t.Context(), d, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(b))
	}
	for _, tc := range []struct {
		from, to, kind string
		common         bool // is of the image's own bytes
	}{{"a", "b", "changed", false}, {"none", "b", "added", true}, {"b", "none", "removed", true}} {
		d, err := s.Diff(t.Context(), tc.from, tc.to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Images) != 1 || d.Images[0].Kind != tc.kind || d.Images[0].Name != "docker.io/team/app:v1" {
			t.Fatalf("%s to %s: %+v", tc.from, tc.to, d.Images)
		}
		top := digest.Digest(d.Images[0].To)
		if tc.kind == "removed" {
			top = digest.Digest(d.Images[0].From)
		}
		var idx ocispec.Index
		b, err := s.ReadBlob(t.Context(), top, 1<<20)
		if err := json.Unmarshal(b, &idx); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := int64(len(b)) + inside(idx.Manifests[0].Digest) + int64(len("config 2")+len("own 2"))
		if tc.common {
			want += int64(len("common"))
		}
		if d.Images[0].Bytes != want {
			t.Errorf("%s to %s: the image has %d bytes more, want %d", tc.from, tc.to, d.Images[0].Bytes, want)
		}
		if tc.kind == "removed" {
			continue
		}
		// Beside the image's blobs: the manifest, the config and the registry layer's document.
		blobs := 4 + 3
		if tc.common {
			blobs++
		}
		if d.Carry.Blobs != blobs || d.Carry.Bytes <= want {
			t.Errorf("%s to %s: %+v, want %d blobs of more than %d bytes", tc.from, tc.to, d.Carry, blobs, want)
		}
	}
	if d, err := s.Diff(t.Context(), "b", "b", nil); err != nil || d.Carry != (store.Payload{}) {
		t.Errorf("an image and itself: %+v, %v", d.Carry, err)
	}
}
