package mirror_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store/storetest"
)

// layers returns the layers of the first platform of a published image.
func layers(u *registrytest.Upstream, name string) []ocispec.Descriptor {
	c := u.Content(name)
	var m ocispec.Manifest
	if err := json.Unmarshal(c.Blobs[c.Manifests[0].Digest], &m); err != nil {
		panic(err)
	}
	return m.Layers
}

// TestBlobsFail has blobs that the registry does not give: the images that need
// them are missing, with the reason, and the others are whole.
func TestBlobsFail(t *testing.T) {
	t.Parallel()
	u := upstream(t)
	lost := layers(u, "redis:7")[1]
	u.Inject(registrytest.Fault{On: registrytest.Blob, Method: "GET", Reference: lost.Digest.String(), Do: registrytest.Status(404)})
	var mu sync.Mutex
	finished := map[digest.Digest]int{}
	s := storetest.New(t)
	r, err := mirror.Mirror(t.Context(), newClient(t, u), s, requests(u, "nginx:1.25", "redis:7", "pause:3"), mirror.Options{
		Platforms: []ocispec.Platform{amd64}, AllowMissing: true,
		Progress: func(e remote.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Op == "fetch" && e.Finished {
				finished[e.Digest]++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, s, r)
	if im := r.Images[1]; !errors.Is(im.Err, remote.ErrNotFound) || !strings.Contains(im.Err.Error(), lost.Digest.String()) {
		t.Errorf("redis: %v", im.Err)
	}
	for _, i := range []int{0, 2} {
		if r.Images[i].Err != nil {
			t.Errorf("%s: %v", r.Images[i].Reference, r.Images[i].Err)
		}
		for _, b := range r.Images[i].Blobs[1:] { // a config is read with the manifests
			if finished[b.Digest] != 1 {
				t.Errorf("%s: blob %s was finished %d times", r.Images[i].Reference, b.Digest, finished[b.Digest])
			}
		}
	}
	if finished[lost.Digest] != 0 {
		t.Error("the blob that failed was reported as finished")
	}
	_, err = mirror.Mirror(t.Context(), newClient(t, u), s, requests(u, "redis:7"), mirror.Options{Platforms: []ocispec.Platform{amd64}})
	wantLines(t, err, "redis:7")
}

func TestRequestSaysSourceAndPlaces(t *testing.T) {
	t.Parallel()
	parse := func(s string) ref.Reference {
		r, err := ref.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, tc := range []struct {
		q    mirror.Request
		want string
	}{
		{mirror.Request{Reference: parse("nginx:1")}, "docker.io/library/nginx:1"},
		{mirror.Request{Reference: parse("nginx:1"), Source: parse("nginx:1"), Asked: []string{"a:1"}}, "docker.io/library/nginx:1 (a:1)"},
		{mirror.Request{Reference: parse("nginx:1"), Source: parse("host/n:2"), Asked: []string{"a:1", "b:2", "c:3"}}, "docker.io/library/nginx:1 from docker.io/host/n:2 (a:1, b:2, c:3)"},
		{mirror.Request{Reference: parse("nginx:1"), Asked: []string{"a:1", "b:2", "c:3", "d:4", "e:5"}}, "docker.io/library/nginx:1 (a:1, b:2, c:3 and 2 more)"},
	} {
		if got := tc.q.String(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// TestReferrersOfTheTag has lists of the referrers tag schema as a registry may
// send them.
func TestReferrersOfTheTag(t *testing.T) {
	t.Parallel()
	const name = "team/app:v1"
	repeat := func(d ocispec.Descriptor, n int) (out []ocispec.Descriptor) {
		for range n {
			out = append(out, d)
		}
		return out
	}
	for _, tc := range []struct {
		name string
		list func(one, two, stranger ocispec.Descriptor) []ocispec.Descriptor
		want int // referrers taken
		note string
	}{
		{"two", func(one, two, _ ocispec.Descriptor) []ocispec.Descriptor { return []ocispec.Descriptor{one, two} }, 2, ""},
		{"as many as may be, one image's many times", func(one, _, _ ocispec.Descriptor) []ocispec.Descriptor { return repeat(one, 256) }, 1, ""},
		{"more than may be", func(one, _, _ ocispec.Descriptor) []ocispec.Descriptor { return repeat(one, 257) }, 0, "257, and sealer takes 256"},
		{"another image's", func(one, _, stranger ocispec.Descriptor) []ocispec.Descriptor {
			return []ocispec.Descriptor{stranger, one}
		}, 1, "does not name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{{Name: name}, {Name: "team/app:v2", Layers: registrytest.Layers("other")}}})
			attach := func(name, kind string) ocispec.Descriptor {
				d, _, err := u.Attach(name, "", registrytest.Artifact{Kind: kind, Content: kind})
				if err != nil {
					t.Fatal(err)
				}
				return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: 1}
			}
			list := tc.list(attach(name, "application/vnd.one"), attach(name, ""), attach("team/app:v2", "application/vnd.three"))
			index, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: list})
			if err != nil {
				t.Fatal(err)
			}
			tag := tree.AttachmentTag(u.Content(name).Root.Digest)
			u.SetManifest("team/app", tag, ocispec.MediaTypeImageIndex, index)

			s := storetest.New(t)
			r, err := mirror.Mirror(t.Context(), newClient(t, u), s, requests(u, name), mirror.Options{
				Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{},
			})
			if err != nil {
				t.Fatal(err)
			}
			if text := errors.Join(r.Notes...); (text == nil) != (tc.note == "") || text != nil && !strings.Contains(text.Error(), tc.note) {
				t.Errorf("notes %v, want %q", r.Notes, tc.note)
			}
			var got []string
			for _, a := range r.Images[0].Attached {
				b, err := s.ReadBlob(t.Context(), a.Descriptor.Digest, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				var idx ocispec.Index
				if err := json.Unmarshal(b, &idx); err != nil {
					t.Fatal(err)
				}
				for _, m := range idx.Manifests {
					got = append(got, m.ArtifactType)
				}
			}
			slices.Sort(got)
			// An artifact without a type has that of its config.
			if want := []string{"application/vnd.oci.empty.v1+json", "application/vnd.one"}[2-max(tc.want, 1):]; tc.want > 0 && !cmp.Equal(got, want) || tc.want == 0 && got != nil {
				t.Errorf("referrers %v, want %d", got, tc.want)
			}
		})
	}
}

// TestAttachmentBlobsFail has attachments that the registry does not give whole:
// the image is whole without them, and that is noted.
func TestAttachmentBlobsFail(t *testing.T) {
	t.Parallel()
	const name = "team/app0:v1"
	for _, tc := range []struct {
		name  string
		spoil func(u *registrytest.Upstream)
		want  string
	}{
		{"not found", func(u *registrytest.Upstream) {
			u.Inject(registrytest.Fault{On: registrytest.Blob, Method: "GET", Reference: digest.FromString(".sig" + name).String(), Do: registrytest.Status(404)})
		}, ".sig: "},
		{"another size than the image says", func(u *registrytest.Upstream) {
			layer := layers(u, name)[0]
			layer.Size++ // the image knows better
			m, err := json.Marshal(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}})
			if err != nil {
				panic(err)
			}
			u.SetManifest("team/app0", tree.AttachmentTag(u.Content(name).Root.Digest)+".sig", ocispec.MediaTypeImageManifest, m)
		}, "another's says"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, names := attachedUpstream(t, 1, true)
			tc.spoil(u)
			s := storetest.New(t)
			r, err := mirror.Mirror(t.Context(), newClient(t, u), s, requests(u, names...), mirror.Options{
				Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{},
			})
			if err != nil {
				t.Fatal(err)
			}
			whole(t, s, r)
			if text := errors.Join(r.Notes...); tc.want != "" && (text == nil || !strings.Contains(text.Error(), tc.want)) {
				t.Errorf("notes %v, want %q", r.Notes, tc.want)
			}
			for _, a := range r.Images[0].Attached {
				if tc.want != "" && strings.HasSuffix(a.Tag, ".sig") {
					t.Errorf("%s is attached", a.Tag)
				}
			}
		})
	}
}

// TestKnownAttachments takes the attachments of an earlier build out of its
// document, where users' tags may look like theirs.
func TestKnownAttachments(t *testing.T) {
	t.Parallel()
	u, names := attachedUpstream(t, 1, true)
	s, c := storetest.New(t), newClient(t, u)
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{}}
	r, err := mirror.Mirror(t.Context(), c, s, requests(u, names...), o)
	if err != nil || len(r.Notes) > 0 {
		t.Fatalf("%v, notes %v", err, r.Notes)
	}
	doc, id := encoded(t, r)
	known := mirror.KnownFrom([]*tree.Document{doc})
	at := u.Host() + "/team/app0:"
	hex := strings.Repeat("a", 64)
	for _, tag := range []string{"sha256-short", "sha256-" + hex[1:], "sha256-" + hex, "sha256-" + hex + ".sig", "v2"} {
		known[at+tag] = digest.FromString(tag)
	}
	u.ResetRequests()
	o.Offline, o.Known, o.Attachments = true, known, &mirror.Attachments{Known: known}
	again, err := mirror.Mirror(t.Context(), c, s, requests(u, names...), o)
	if err != nil || len(again.Notes) > 0 {
		t.Fatalf("offline: %v, notes %v", err, again.Notes)
	}
	if _, got := encoded(t, again); got != id {
		t.Errorf("offline the document is another: %s, want %s", got, id)
	}
}

// TestAttachmentsOfTwoRegistries has one image in two registries, whose
// repositories fall on one name, with a signature of its own in each.
func TestAttachmentsOfTwoRegistries(t *testing.T) {
	t.Parallel()
	const name = "team/app:v1"
	var ups []*registrytest.Upstream
	var sigs []digest.Digest
	var reqs []mirror.Request
	for _, key := range []string{"first", "second"} {
		u := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{{Name: name}}})
		d, _, err := u.Attach(name, "", registrytest.Artifact{Kind: ".sig", Content: key})
		if err != nil {
			t.Fatal(err)
		}
		ups, sigs, reqs = append(ups, u), append(sigs, d), append(reqs, requests(u, name)...)
	}
	r, err := mirror.Mirror(t.Context(), newClient(t, ups...), storetest.New(t), reqs, mirror.Options{
		Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{},
	})
	if err != nil || len(r.Notes) > 0 {
		t.Fatalf("%v, notes %v", err, r.Notes)
	}
	doc, _ := encoded(t, r)
	if len(doc.Repositories) != 1 {
		t.Fatalf("%d repositories", len(doc.Repositories))
	}
	for _, tag := range doc.Repositories[0].Tags {
		if !strings.HasSuffix(tag.Name, ".sig") {
			if len(tag.Sources) != 2 {
				t.Errorf("%s has the sources %v", tag.Name, tag.Sources)
			}
			continue
		}
		if tag.Digest != sigs[0] || len(tag.Sources) != 1 || tag.Sources[0].Registry != ups[0].Host() {
			t.Errorf("%s is %s of %v, want the first registry's %s", tag.Name, tag.Digest, tag.Sources, sigs[0])
		}
	}
	for _, v := range doc.Repositories[0].Revisions {
		if v.Digest == sigs[1] {
			t.Error("the second registry's signature has no tag and is there")
		}
	}
}

// TestDocumentOverLayers adds the least that a layer can add to those below.
func TestDocumentOverLayers(t *testing.T) {
	t.Parallel()
	u := upstream(t)
	s, c := storetest.New(t), newClient(t, u)
	o := mirror.Options{Platforms: []ocispec.Platform{amd64}}
	r, err := mirror.Mirror(t.Context(), c, s, requests(u, "nginx:1.25"), o)
	if err != nil {
		t.Fatal(err)
	}
	full, _ := encoded(t, r)
	if got := r.Document([]*tree.Document{full}); got != nil {
		t.Errorf("over itself it adds %v", got)
	}

	// One layer and its blob.
	layer := full.Repositories[0].Layers[0]
	below := *full
	below.Repositories = slices.Clone(full.Repositories)
	below.Repositories[0].Layers = full.Repositories[0].Layers[1:]
	below.Blobs = slices.DeleteFunc(slices.Clone(full.Blobs), func(b tree.Blob) bool { return b.Digest == layer })
	got := r.Document([]*tree.Document{&below})
	if got == nil || len(got.Repositories) != 1 || len(got.Blobs) != 1 || got.Blobs[0].Digest != layer || !cmp.Equal(got.Repositories[0].Layers, []digest.Digest{layer}) {
		t.Errorf("over all but a layer it adds %v", got)
	}

	// A manifest that is asked for by its digest: a revision, and no layer.
	pinned := requests(u, "nginx@"+r.Images[0].Manifests[0].Digest.String())
	if r, err = mirror.Mirror(t.Context(), c, s, pinned, o); err != nil {
		t.Fatal(err)
	}
	got = r.Document([]*tree.Document{full})
	if got == nil || len(got.Repositories) != 1 || len(got.Repositories[0].Revisions) != 1 || len(got.Repositories[0].Revisions[0].Sources) != 1 || len(got.Blobs) != 0 {
		t.Errorf("a manifest that is asked for by its digest adds %v", got)
	}
}

func TestMountFrom(t *testing.T) {
	t.Parallel()
	source := func(s string) []ref.Reference {
		r, err := ref.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return []ref.Reference{r}
	}
	a, b, c := digest.FromString("a"), digest.FromString("b"), digest.FromString("c")
	docs := []*tree.Document{{Repositories: []tree.Repository{
		{Name: "x", Layers: []digest.Digest{a}, Tags: []tree.Tag{{Sources: source("other/x:1")}, {Sources: source("quay.io/team/x:1")}}},
		{Name: "y", Layers: []digest.Digest{b}, Revisions: []tree.Revision{{Sources: source("quay.io/y@" + a.String())}}},
	}}, {Repositories: []tree.Repository{{Name: "z", Layers: []digest.Digest{c}, Tags: []tree.Tag{{Sources: source("other/z:1")}}}}}}
	if diff := cmp.Diff(map[digest.Digest]string{a: "team/x", b: "y"}, mirror.MountFrom(docs, "quay.io")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
