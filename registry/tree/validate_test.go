package tree_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// TestValidate has a document for each rule; want are the texts of all faults.
func TestValidate(t *testing.T) {
	t.Parallel()
	a, b := digest.FromString("a"), digest.FromString("b")
	revision := func(d digest.Digest) []tree.Revision { return []tree.Revision{{Digest: d, MediaType: "m", Size: 1}} }
	one := func(r tree.Repository) tree.Document { return tree.Document{Repositories: []tree.Repository{r}} }
	tag := func(name string, d digest.Digest) []tree.Tag { return []tree.Tag{{Name: name, Digest: d}} }
	for name, tc := range map[string]struct {
		d    tree.Document
		want []string
	}{
		"empty":            {tree.Document{}, nil},
		"names":            {one(tree.Repository{Name: "a/b.c/d__e/f--g/h_i"}), nil},
		"longest name":     {one(tree.Repository{Name: strings.Repeat("a", 255)}), nil},
		"too long":         {one(tree.Repository{Name: strings.Repeat("a", 256)}), []string{`repository name "` + strings.Repeat("a", 256) + `"`}},
		"no name":          {one(tree.Repository{}), []string{`repository name ""`}},
		"out":              {one(tree.Repository{Name: "a/../b"}), []string{`repository name "a/../b"`}},
		"upper case":       {one(tree.Repository{Name: "A"}), []string{`repository name "A"`}},
		"two repositories": {tree.Document{Repositories: []tree.Repository{{Name: "a"}, {Name: "b"}, {Name: "a"}}}, []string{"repository a stands twice"}},
		"revision":         {one(tree.Repository{Name: "a", Revisions: []tree.Revision{{Digest: a}}}), nil},
		"no digest":        {one(tree.Repository{Name: "a", Revisions: revision("sha256:x")}), []string{`repository a: revision "sha256:x"`}},
		"negative size":    {one(tree.Repository{Name: "a", Revisions: []tree.Revision{{Digest: a, Size: -1}}}), []string{`repository a: revision "` + string(a) + `"`}},
		"revision twice":   {one(tree.Repository{Name: "a", Revisions: append(revision(a), revision(a)...)}), []string{`repository a: revision "` + string(a) + `"`}},
		"longest tag":      {one(tree.Repository{Name: "a", Revisions: revision(a), Tags: tag(strings.Repeat("t", 128), a)}), nil},
		"too long a tag":   {one(tree.Repository{Name: "a", Revisions: revision(a), Tags: tag(strings.Repeat("t", 129), a)}), []string{`repository a: tag "` + strings.Repeat("t", 129) + `"`}},
		"dot":              {one(tree.Repository{Name: "a", Revisions: revision(a), Tags: tag("..", a)}), []string{`repository a: tag ".."`}},
		"nameless sources": {
			one(tree.Repository{Name: "a", Revisions: []tree.Revision{{Digest: a, Sources: make([]ref.Reference, 1)}}, Tags: []tree.Tag{{Name: "t", Digest: a, Sources: make([]ref.Reference, 1)}}}),
			[]string{`repository a: revision "` + string(a) + `" has a source without a name`, "repository a: tag t has a source without a name"},
		},
		"tag twice":           {one(tree.Repository{Name: "a", Revisions: revision(a), Tags: append(tag("t", a), tag("t", a)...)}), []string{`repository a: tag "t"`}},
		"tag of another":      {one(tree.Repository{Name: "a", Revisions: revision(a), Tags: tag("t", b)}), []string{`repository a: tag t points at "` + string(b) + `", which is no revision of it`}},
		"layer":               {one(tree.Repository{Name: "a", Layers: []digest.Digest{a}}), nil},
		"no layer":            {one(tree.Repository{Name: "a", Layers: []digest.Digest{"x"}}), []string{`repository a: layer "x"`}},
		"blob":                {tree.Document{Blobs: []tree.Blob{{Digest: a}}}, nil},
		"no blob":             {tree.Document{Blobs: []tree.Blob{{Digest: "x", Size: 1}}}, []string{`blob "x" of 1 bytes`}},
		"negative blob":       {tree.Document{Blobs: []tree.Blob{{Digest: a, Size: -1}}}, []string{`blob "` + string(a) + `" of -1 bytes`}},
		"blob twice":          {tree.Document{Blobs: []tree.Blob{{a, 1}, {a, 1}}}, []string{`blob "` + string(a) + `" of 1 bytes`}},
		"every fault is told": {tree.Document{Repositories: []tree.Repository{{Name: "A"}}, Blobs: []tree.Blob{{Digest: "x"}}}, []string{`repository name "A"`, `blob "x" of 0 bytes`}},
	} {
		var got []string
		if err := tc.d.Validate(); err != nil {
			if !errors.Is(err, tree.ErrInvalid) {
				t.Errorf("%s: %v wraps no ErrInvalid", name, err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				got = append(got, strings.TrimPrefix(line, tree.ErrInvalid.Error()+": "))
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := tree.Prepare(t.TempDir(), &tc.d); (err == nil) != (tc.want == nil) {
			t.Errorf("%s: Prepare = %v", name, err)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	b, id, err := (&tree.Document{}).Encode()
	if err != nil || string(b) != `{"schemaVersion":1,"repositories":[],"blobs":[]}` || id != digest.FromBytes(b) {
		t.Errorf("an empty document is %s, %s, %v", b, id, err)
	}
	if _, _, err := (&tree.Document{Blobs: []tree.Blob{{Digest: "x"}}}).Encode(); !errors.Is(err, tree.ErrInvalid) {
		t.Errorf("a bad document is encoded: %v", err)
	}
	x, y := digest.FromString("a"), digest.FromString("b")
	if x > y {
		x, y = y, x
	}
	d := &tree.Document{
		Repositories: []tree.Repository{
			{Name: "b"},
			{
				Name: "a", Layers: []digest.Digest{y, x, y},
				Revisions: []tree.Revision{{Digest: y, Sources: sources(t, "2", "1", "2")}, {Digest: x}},
				Tags:      []tree.Tag{{Name: "2", Digest: x}, {Name: "1", Digest: y, Sources: sources(t, "b", "a", "b")}},
			},
		},
		Blobs: []tree.Blob{{y, 1}, {x, 1}, {y, 1}},
	}
	want := &tree.Document{
		SchemaVersion: 1,
		Repositories: []tree.Repository{
			{
				Name: "a", Layers: []digest.Digest{x, y},
				Revisions: []tree.Revision{{Digest: x}, {Digest: y, Sources: sources(t, "1", "2")}},
				Tags:      []tree.Tag{{Name: "1", Digest: y, Sources: sources(t, "a", "b")}, {Name: "2", Digest: x}},
			},
			{Name: "b"},
		},
		Blobs: []tree.Blob{{x, 1}, {y, 1}},
	}
	if b, _, err = d.Encode(); err != nil {
		t.Fatal(err)
	}
	var got tree.Document
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sourced is a document with a revision of these sources.
func sourced(list string) string {
	return `{"schemaVersion":1,"repositories":[{"name":"a","revisions":[{"digest":"x","mediaType":"m","size":1,"sources":[` + list + `]}]}],"blobs":[]}`
}

func TestParseSaysWhy(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"schemaVersion":2,"repositories":[],"blobs":[]}`:                    "schemaVersion 2: this sealer reads 1",
		`{"schemaVersion":1,"repositories":[], "blobs":[]}`:                   "not in canonical form",
		`{"schemaVersion":1,"repositories":[],"blobs":[],"x":1}`:              "unknown field",
		`{"schemaVersion":1,"repositories":[{"name":"A"}],"blobs":[]}`:        `repository name "A"`,
		`{"schemaVersion":1,"repositories":[],"blobs":[]}{"schemaVersion":1}`: "not in canonical form",

		// The order is told before the last, which is no reference, is parsed.
		sourced(`"b.b/c:1","a.b/c:1","/"`):    `the source "a.b/c:1" stands after "b.b/c:1"`,
		sourced(`"b.b/c:1","b.b/c:1","/"`):    `the source "b.b/c:1" stands after "b.b/c:1"`,
		sourced(`"",""`):                      `the source "" stands after ""`,
		sourced(`"a.b/c:1","/"`):              `the source "/" stands after`,
		sourced(`"a.b/c:1",1`):                "cannot unmarshal number",
		sourced(`"a.b/c:1","b.b/c:1","c//d"`): `"c//d"`,
	} {
		if d, err := tree.Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, %v, want %q", in, d, err, want)
		}
	}
}

// TestPlaces compares the whole tree of a document with the layout of
// distribution's storage.
func TestPlaces(t *testing.T) {
	t.Parallel()
	d := digest.FromString("a")
	e := digest.Digest("sha256:" + d.Encoded()[:2] + strings.Repeat("0", 62)) // in the same directory
	dir := t.TempDir()
	doc := &tree.Document{
		Repositories: []tree.Repository{{Name: "x"}, {
			Name: "x/y", Tags: []tree.Tag{{Name: "t", Digest: d}},
			Revisions: []tree.Revision{{Digest: d}}, Layers: []digest.Digest{e},
		}},
		Blobs: []tree.Blob{{d, 0}, {e, 0}},
	}
	if err := tree.Prepare(dir, doc); err != nil {
		t.Fatal(err)
	}
	if err := tree.Place(dir, doc, func(_ digest.Digest, path string) error { return os.WriteFile(path, nil, 0o444) }); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "registry/docker/registry/v2"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		got[strings.TrimPrefix(path, filepath.Join(dir, "registry/docker/registry/v2")+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	hex := d.Encoded()
	want := map[string]string{
		"repositories/x/y/_manifests/tags/t/current/link":                  "" + string(d),
		"repositories/x/y/_manifests/tags/t/index/sha256/" + hex + "/link": string(d),
		"repositories/x/y/_manifests/revisions/sha256/" + hex + "/link":    string(d),
		"repositories/x/y/_layers/sha256/" + e.Encoded() + "/link":         string(e),
		"blobs/sha256/" + hex[:2] + "/" + hex + "/data":                    "",
		"blobs/sha256/" + hex[:2] + "/" + e.Encoded() + "/data":            "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !tree.Present(dir, doc) || tree.VerifyLinks(dir, doc) != nil {
		t.Error("a whole tree is not present")
	}
	if err := os.Remove(filepath.Join(dir, tree.Root, tree.BlobPath(e))); err != nil {
		t.Fatal(err)
	}
	if tree.Present(dir, doc) {
		t.Error("a tree without a blob is present")
	}
	link := filepath.Join(dir, tree.Root, tree.TagPath("x/y", "t"))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../index/sha256/"+hex+"/link", link); err != nil {
		t.Fatal(err)
	}
	if tree.Present(dir, &tree.Document{Repositories: doc.Repositories}) {
		t.Error("a symbolic link is a link file")
	}
	if err := tree.Place(dir, doc, func(digest.Digest, string) error { return fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "blob sha256:") {
		t.Errorf("Place = %v, want the blob and the cause", err)
	}
	if err := tree.Prepare(dir, doc); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Prepare over a tree = %v", err)
	}
	if err := tree.Prepare(link, doc); err == nil || !strings.HasPrefix(err.Error(), "write registry tree: ") {
		t.Errorf("Prepare below a file = %v", err)
	}
}

func TestParseNaming(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]tree.Naming{"": tree.NamingPath, "path": tree.NamingPath, "full": tree.NamingFull} {
		if got, err := tree.ParseNaming(in); err != nil || got != want {
			t.Errorf("ParseNaming(%q) = %q, %v", in, got, err)
		}
	}
	if got, err := tree.ParseNaming("short"); err == nil || !strings.Contains(err.Error(), `"short"`) {
		t.Errorf("ParseNaming(short) = %q, %v", got, err)
	}
	for host, want := range map[string]string{
		"docker.io": "docker.io", "reg.example:8443": "reg.example-8443", "A.Z09": "a.z09", "[::1]:5000": "1-5000", "a_b": "a-b", "x{y": "x-y", "x`y": "x-y", "0/9": "0-9", "azc:9": "azc-9",
	} {
		if got := tree.HostSegment(host); got != want {
			t.Errorf("HostSegment(%q) = %q, want %q", host, got, want)
		}
	}
}

func source(t *testing.T, name string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sources(t *testing.T, names ...string) (out []ref.Reference) {
	t.Helper()
	for _, name := range names {
		out = append(out, source(t, name))
	}
	return out
}

// TestAttachmentTags tells the tags of an image's signatures and referrers from
// tags that a user gave.
func TestAttachmentTags(t *testing.T) {
	t.Parallel()
	d := digest.FromString("x")
	tag := tree.AttachmentTag(d)
	if want := "sha256-" + d.Encoded(); tag != want {
		t.Errorf("AttachmentTag = %s, want %s", tag, want)
	}
	for _, tc := range []struct {
		tag                   string
		attachment, referrers bool
	}{
		{tag, true, true},
		{tag + ".sig", true, false},
		{tag + ".att", true, false},
		{tag + ".sbom", true, false},
		{tag + ".zip", false, false},
		{tag + "0", false, false},
		{tag[:len(tag)-1], false, false},
		{"x" + tag[1:], false, false},
		{"v1.2.3", false, false},
		{"sha256-" + strings.ToUpper(d.Encoded()), false, false},
	} {
		if got := tree.IsAttachmentTag(tc.tag); got != tc.attachment {
			t.Errorf("IsAttachmentTag(%s) = %t", tc.tag, got)
		}
		if got := tree.IsReferrersTag(tc.tag); got != tc.referrers {
			t.Errorf("IsReferrersTag(%s) = %t", tc.tag, got)
		}
	}
}
