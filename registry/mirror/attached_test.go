package mirror_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store/storetest"
)

// attachedUpstream is a registry with n images, each with a signature under cosign's
// tag, an artifact that names it, and one that names that artifact.
func attachedUpstream(t *testing.T, n int, api bool) (*registrytest.Upstream, []string) {
	t.Helper()
	u := registrytest.New(t, registrytest.Options{Referrers: api})
	var names []string
	attach := func(name string, on digest.Digest, kind string) digest.Digest {
		d, _, err := u.Attach(name, on, registrytest.Artifact{Kind: kind, Content: kind + name})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i := range n {
		name := fmt.Sprintf("team/app%d:v1", i)
		names = append(names, name)
		if _, err := u.Add(registrytest.Image{Name: name}); err != nil {
			t.Fatal(err)
		}
		attach(name, "", ".sig")
		attach(name, attach(name, "", "application/spdx+json"), "application/vnd.example.sig")
	}
	return u, names
}

// encoded returns the document of a result.
func encoded(t *testing.T, r *mirror.Result) (*tree.Document, digest.Digest) {
	t.Helper()
	doc := r.Document(nil)
	_, id, err := doc.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return doc, id
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	const n = 12
	for _, api := range []bool{true, false} {
		u, names := attachedUpstream(t, n, api)
		s, c := storetest.New(t), newClient(t, u)
		o := mirror.Options{Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{}}
		r, err := mirror.Mirror(t.Context(), c, s, requests(u, names...), o)
		if err != nil || len(r.Notes) > 0 {
			t.Fatalf("%v, notes %v", err, r.Notes)
		}
		doc, id := encoded(t, r)
		if len(doc.Repositories) != n {
			t.Fatalf("%d repositories", len(doc.Repositories))
		}
		for _, repo := range doc.Repositories {
			kinds := map[string]int{}
			for _, tag := range repo.Tags {
				kinds[fmt.Sprint(tree.IsAttachmentTag(tag.Name), tree.IsReferrersTag(tag.Name))]++
			}
			if kinds["false false"] != 1 || kinds["true false"] != 1 || kinds["true true"] != 2 {
				t.Errorf("%s: tags %v", repo.Name, repo.Tags)
			}
		}
		if got := u.Count(registrytest.Tags); got != n {
			t.Errorf("%d lists of tags for %d repositories", got, n)
		}
		if got, want := u.Count(registrytest.Referrers), map[bool]int{true: 3 * n, false: 1}[api]; got != want {
			t.Errorf("api %v: %d requests for referrers, want %d", api, got, want)
		}
		// Offline, out of the digests that are known then.
		known := r.Attached()
		for i := range r.Images {
			known[r.Images[i].Reference.String()] = r.Images[i].Descriptor.Digest
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
		if got := len(u.Requests()); got > 0 {
			t.Errorf("offline: %d requests", got)
		}
		// Fixed, in an empty store, by the digests of a lock file.
		o.Offline, o.Known, o.Attachments = false, nil, &mirror.Attachments{Known: known, Fixed: true}
		locked, err := mirror.Mirror(t.Context(), c, storetest.New(t), requests(u, names...), o)
		if err != nil || len(locked.Notes) > 0 {
			t.Fatalf("locked: %v, notes %v", err, locked.Notes)
		}
		if _, got := encoded(t, locked); got != id {
			t.Errorf("locked the document is another: %s, want %s", got, id)
		}
	}
}

// Failures leave the image whole and are noted, each once.
func TestAttachmentsFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		level registrytest.Level
		do    registrytest.Action
		want  string
		notes int
	}{
		"tags refused":      {registrytest.Tags, registrytest.Status(403), "tags of", 1},
		"no tags":           {registrytest.Tags, registrytest.Status(404), "", 0},
		"referrers refused": {registrytest.Referrers, registrytest.Status(401), "referrers of", 3},
		"referrers endless": {registrytest.Referrers, registrytest.Truncate(10), "referrers of", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, names := attachedUpstream(t, 1, true)
			u.Inject(registrytest.Fault{On: tc.level, Times: 100, Do: tc.do})
			r, err := mirror.Mirror(t.Context(), newClient(t, u), storetest.New(t), requests(u, names...), mirror.Options{
				Platforms: []ocispec.Platform{amd64}, Attachments: &mirror.Attachments{},
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Images[0].Err != nil || len(r.Notes) > tc.notes || tc.want != "" && (len(r.Notes) == 0 || !strings.Contains(r.Notes[0].Error(), tc.want)) {
				t.Errorf("notes %v, want %q", r.Notes, tc.want)
			}
		})
	}
}
