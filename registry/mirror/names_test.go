package mirror

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// resolved returns an image as it is after resolve: REFERENCE or
// REFERENCE=SOURCE, with a manifest of this content. The content "" is a
// failure.
func resolved(t *testing.T, text, content string) Image {
	t.Helper()
	name, source, _ := strings.Cut(strings.ReplaceAll(text, "@one", "@"+string(digest.FromString("one"))), "=")
	im := Image{Request: Request{Asked: []string{"list:1"}}}
	var err error
	if im.Reference, err = ref.Parse(name); err != nil {
		t.Fatal(err)
	}
	if source != "" {
		if im.Source, err = ref.Parse(source); err != nil {
			t.Fatal(err)
		}
	}
	if content == "" {
		im.Err = errors.New("it failed")
		return im
	}
	im.Descriptor = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(content), Size: 1}
	im.Manifests = []ocispec.Descriptor{im.Descriptor}
	return im
}

// below returns the document of a layer with one tag, mirrored from sources.
func below(repository, tag, content string, sources ...string) *tree.Document {
	d := digest.FromString(content)
	r := tree.Repository{Name: repository, Revisions: []tree.Revision{{Digest: d, MediaType: ocispec.MediaTypeImageManifest, Size: 1}}}
	if tag != "" {
		t := tree.Tag{Name: tag, Digest: d}
		for _, s := range sources {
			source, err := ref.Parse(s)
			if err != nil {
				panic(err) // a name that this file has
			}
			t.Sources = append(t.Sources, source)
		}
		r.Tags = []tree.Tag{t}
	}
	return &tree.Document{Repositories: []tree.Repository{r}}
}

func newTestEngine(naming tree.Naming, images []Image, docs ...*tree.Document) *engine {
	o := Options{Naming: naming, Below: docs}.filled()
	return &engine{o: o, result: &Result{Images: images, naming: o.Naming, private: o.PrivateRegistry}}
}

type asked struct{ text, content string }

func images(t *testing.T, list []asked) (out []Image) {
	for _, a := range list {
		out = append(out, resolved(t, a.text, a.content))
	}
	return out
}

func TestTags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		images []asked
		below  *tree.Document
		want   map[string]string // repository:tag -> content
	}{
		"one":                    {[]asked{{"quay.io/a/b:1", "one"}}, nil, map[string]string{"a/b:1": "one"}},
		"a failure":              {[]asked{{"quay.io/a/b:1", ""}}, nil, nil},
		"the first of two":       {[]asked{{"quay.io/a/b:1", "one"}, {"ghcr.io/a/b:1", "two"}}, nil, map[string]string{"a/b:1": "one"}},
		"a digest alone":         {[]asked{{"quay.io/a/b@one", "one"}}, nil, nil},
		"tag and digest":         {[]asked{{"quay.io/a/b:1@one", "one"}}, nil, map[string]string{"a/b:1": "one"}},
		"the tag wins":           {[]asked{{"quay.io/a/b:1@one", "one"}, {"quay.io/a/b:1", "two"}}, nil, map[string]string{"a/b:1": "two"}},
		"the tag wins, first":    {[]asked{{"quay.io/a/b:1", "two"}, {"quay.io/a/b:1@one", "one"}}, nil, map[string]string{"a/b:1": "two"}},
		"below wins over pinned": {[]asked{{"quay.io/a/b:1@one", "one"}}, below("a/b", "1", "two"), nil},
		"below is the same":      {[]asked{{"quay.io/a/b:1@one", "one"}}, below("a/b", "1", "one"), map[string]string{"a/b:1": "one"}},
		"other tag below":        {[]asked{{"quay.io/a/b:1@one", "one"}}, below("a/b", "2", "two"), map[string]string{"a/b:1": "one"}},
		"the tag over below":     {[]asked{{"quay.io/a/b:1", "one"}}, below("a/b", "1", "two"), map[string]string{"a/b:1": "one"}},
		"a requirement":          {[]asked{{"sea.hub:5000/a/b:1", "one"}}, nil, nil},
		"a private name":         {[]asked{{"sea.hub:5000/a/b:1=quay.io/x:2", "one"}}, nil, map[string]string{"a/b:1": "one"}},
	} {
		r := newTestEngine("", images(t, tc.images)).result
		var docs []*tree.Document
		if tc.below != nil {
			docs = append(docs, tc.below)
		}
		got := map[string]string{}
		for n, im := range r.tags(unite(docs)) {
			for _, a := range tc.images {
				if digest.FromString(a.content) == im.Descriptor.Digest {
					got[n.repository+":"+n.tag] = a.content
				}
			}
		}
		if tc.want == nil {
			tc.want = map[string]string{}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	const full, choose = "; choose the full naming, or a name for one of them (NAME=SOURCE)", "; choose a name for one of them (NAME=SOURCE)"
	for name, tc := range map[string]struct {
		naming tree.Naming
		images []asked
		below  []*tree.Document
		want   string // "" for none; without ErrCollision's text
	}{
		"two registries":         {"", []asked{{"quay.io/a/b:1", "one"}, {"ghcr.io/a/b:1", "two"}}, nil, "a/b:1 is quay.io/a/b:1 (list:1), and ghcr.io/a/b:1 (list:1)" + full},
		"three":                  {"", []asked{{"quay.io/a:1", "one"}, {"ghcr.io/a:1", "two"}, {"x.io/a:1", "one"}, {"y.io/a:1", "three"}}, nil, "a:1 is quay.io/a:1 (list:1), and ghcr.io/a:1 (list:1)" + full + "\na:1 is quay.io/a:1 (list:1), and y.io/a:1 (list:1)" + full},
		"equal content":          {"", []asked{{"quay.io/a/b:1", "one"}, {"ghcr.io/a/b:1", "one"}}, nil, ""},
		"other tags":             {"", []asked{{"quay.io/a/b:1", "one"}, {"ghcr.io/a/b:2", "two"}}, nil, ""},
		"full naming":            {tree.NamingFull, []asked{{"quay.io/a/b:1", "one"}, {"ghcr.io/a/b:1", "two"}}, nil, ""},
		"full naming, one name":  {tree.NamingFull, []asked{{"r.io:1/a:1", "one"}, {"r.io-1/a:1", "two"}}, nil, "r.io-1/a:1 is r.io:1/a:1 (list:1), and r.io-1/a:1 (list:1)" + choose},
		"a failure":              {"", []asked{{"quay.io/a/b:1", ""}, {"ghcr.io/a/b:1", "two"}}, nil, ""},
		"pinned":                 {"", []asked{{"quay.io/a/b:1@one", "one"}, {"ghcr.io/a/b:1", "two"}}, nil, ""},
		"digests":                {"", []asked{{"quay.io/a/b@one", "one"}, {"ghcr.io/a/b@one", "one"}}, nil, ""},
		"a requirement":          {"", []asked{{"quay.io/a/b:1", "one"}, {"sea.hub:5000/a/b:1", "two"}}, nil, ""},
		"below, another":         {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "ghcr.io/a/b:1")}, "a/b:1 is ghcr.io/a/b:1 in a layer below, and quay.io/a/b:1 (list:1)" + full},
		"below, the first name":  {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "z.io/a/b:1", "ghcr.io/a/b:1")}, "a/b:1 is ghcr.io/a/b:1 in a layer below, and quay.io/a/b:1 (list:1)" + full},
		"below, equal content":   {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "one", "ghcr.io/a/b:1")}, ""},
		"below, it moved":        {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "ghcr.io/a/b:1", "quay.io/a/b:1")}, ""},
		"below, pinned":          {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "ghcr.io/a/b:1@"+digest.FromString("x").String())}, ""},
		"below, hidden":          {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "ghcr.io/a/b:1"), below("a/b", "1", "one", "quay.io/a/b:1")}, ""},
		"below, the same twice":  {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "two", "quay.io/a/b:1"), below("a/b", "1", "two", "ghcr.io/a/b:1")}, ""},
		"below, another content": {"", []asked{{"quay.io/a/b:1", "one"}}, []*tree.Document{below("a/b", "1", "three", "quay.io/a/b:1"), below("a/b", "1", "two", "ghcr.io/a/b:1")}, "a/b:1 is ghcr.io/a/b:1 in a layer below, and quay.io/a/b:1 (list:1)" + full},
	} {
		var got []string
		for _, err := range newTestEngine(tc.naming, images(t, tc.images), tc.below...).collisions() {
			if !errors.Is(err, ErrCollision) {
				t.Errorf("%s: %v is no ErrCollision", name, err)
			}
			got = append(got, strings.TrimPrefix(err.Error(), ErrCollision.Error()+": "))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	one := string(digest.FromString("one"))
	for name, tc := range map[string]struct {
		request string
		images  []asked
		below   []*tree.Document
		want    string // content, "" for ErrNotMirrored
		isBelow bool
	}{
		"by tag":               {"a/b:1", []asked{{"quay.io/a/b:1", "one"}}, nil, "one", false},
		"other tag":            {"a/b:2", []asked{{"quay.io/a/b:1", "one"}}, nil, "", false},
		"other repository":     {"a/c:1", []asked{{"quay.io/a/b:1", "one"}}, nil, "", false},
		"a failure":            {"a/b:1", []asked{{"quay.io/a/b:1", ""}}, nil, "", false},
		"a new name":           {"a/b:1", []asked{{"sea.hub:5000/a/b:1=quay.io/x:2", "one"}}, nil, "one", false},
		"by digest":            {"a/b@" + one, []asked{{"quay.io/a/b:1", "one"}}, nil, "one", false},
		"by another digest":    {"a/b@" + one, []asked{{"quay.io/a/b:1", "two"}}, nil, "", false},
		"digest elsewhere":     {"a/c@" + one, []asked{{"quay.io/a/b:1", "one"}}, nil, "", false},
		"below, by tag":        {"a/b:1", nil, []*tree.Document{below("a/b", "1", "one")}, "one", true},
		"below, by digest":     {"a/b@" + one, nil, []*tree.Document{below("a/b", "", "one")}, "one", true},
		"below, other tag":     {"a/b:2", nil, []*tree.Document{below("a/b", "1", "one")}, "", false},
		"this run before that": {"a/b:1", []asked{{"quay.io/a/b:1", "two"}}, []*tree.Document{below("a/b", "1", "one")}, "two", false},
	} {
		e := newTestEngine("", append(images(t, tc.images), resolved(t, "sea.hub:5000/"+tc.request, "")), tc.below...)
		im := &e.result.Images[len(tc.images)]
		im.Err = nil
		e.requirements()
		if tc.want == "" {
			if !errors.Is(im.Err, ErrNotMirrored) {
				t.Errorf("%s: %v, want ErrNotMirrored", name, im.Err)
			}
			continue
		}
		if im.Err != nil || im.Descriptor.Digest != digest.FromString(tc.want) || im.SatisfiedBelow != tc.isBelow {
			t.Errorf("%s: %v, %s, below %v; want the content %s, below %v", name, im.Err, im.Descriptor.Digest, im.SatisfiedBelow, tc.want, tc.isBelow)
		}
	}
}
