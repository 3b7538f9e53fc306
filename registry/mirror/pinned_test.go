package mirror_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store/storetest"
)

// A reference with a tag and a digest is pulled by the digest, so two that
// share the tag do not collide; what the tag alone means is decided by the
// reference that has nothing else.
func TestPinnedShareTag(t *testing.T) {
	t.Parallel()
	up := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{
		{Name: "tools/x:1", Layers: registrytest.Layers("one")}, {Name: "tools/x:2", Layers: registrytest.Layers("two")}, {Name: "tools/x:3", Layers: registrytest.Layers("three")},
	}})
	c := newClient(t, up)
	digests := map[string]digest.Digest{}
	for _, tag := range []string{"1", "2", "3"} {
		digests[tag] = up.Content("tools/x:" + tag).Root.Digest
	}
	tagged := mirror.Request{Reference: up.Ref("tools/x:1")}
	pinned := func(content string) mirror.Request {
		r := tagged
		r.Reference.Digest = digests[content]
		return r
	}
	required := mirror.Request{Reference: ref.Reference{Registry: ref.DefaultPrivate, Repository: "tools/x", Tag: "1"}}
	for name, tc := range map[string]struct {
		below, reqs []mirror.Request
		tag         string // what the tag means in the document, "" for nothing new
		revisions   int
	}{
		"the tag alone first":   {nil, []mirror.Request{tagged, pinned("2"), required}, "1", 2},
		"the tag alone last":    {nil, []mirror.Request{pinned("2"), pinned("3"), tagged, required}, "1", 3},
		"both pinned":           {nil, []mirror.Request{pinned("3"), pinned("2"), required}, "3", 2},
		"pinned and the same":   {nil, []mirror.Request{pinned("1"), tagged}, "1", 1},
		"the tag below":         {[]mirror.Request{tagged}, []mirror.Request{pinned("2"), required}, "", 1},
		"the pinned tag below":  {[]mirror.Request{pinned("2")}, []mirror.Request{tagged}, "1", 1},
		"pinned, another below": {[]mirror.Request{pinned("2")}, []mirror.Request{pinned("3")}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := storetest.New(t), mirror.Options{Platforms: []ocispec.Platform{amd64}}
			if tc.below != nil {
				r, err := mirror.Mirror(t.Context(), c, s, tc.below, o)
				if err != nil {
					t.Fatal(err)
				}
				o.Below = []*tree.Document{r.Document(nil)}
			}
			r, err := mirror.Mirror(t.Context(), c, s, tc.reqs, o)
			if err != nil {
				t.Fatal(err)
			}
			doc := r.Document(o.Below)
			if len(doc.Repositories) != 1 {
				t.Fatalf("%d repositories in %+v", len(doc.Repositories), doc)
			}
			var got []digest.Digest
			for _, tag := range doc.Repositories[0].Tags {
				got = append(got, tag.Digest)
			}
			var want []digest.Digest
			if tc.tag != "" {
				want = append(want, digests[tc.tag])
			}
			if diff := cmp.Diff(want, got); diff != "" || len(doc.Repositories[0].Revisions) != tc.revisions {
				t.Errorf("tags (-want +got):\n%s%d revisions, want %d", diff, len(doc.Repositories[0].Revisions), tc.revisions)
			}
		})
	}
}
