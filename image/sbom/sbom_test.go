package sbom

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

const spdxText = `{"spdxVersion":"SPDX-2.3","packages":[
 {"name":"image","primaryPackagePurpose":"CONTAINER","licenseDeclared":"X"},
 {"name":"zlib","versionInfo":"1.3","licenseConcluded":"NOASSERTION","licenseDeclared":"Zlib","externalRefs":[{"referenceType":"cpe23Type","referenceLocator":"cpe"},{"referenceType":"purl","referenceLocator":"pkg:deb/zlib@1.3"}]},
 {"name":"bash","versionInfo":"5","licenseConcluded":"GPL-3.0-or-later","licenseDeclared":"other"},
 {"name":"bash","versionInfo":"5","licenseConcluded":"GPL-3.0-or-later"},
 {"name":"nolicence","licenseDeclared":"NONE"}]}`

const cycloneText = `{"bomFormat":"CycloneDX","components":[
 {"type":"library","group":"org.example","name":"a","version":"1","purl":"pkg:maven/a","licenses":[{"license":{"id":"MIT"}},{"license":{"name":"Own words"}}],
  "components":[{"type":"library","name":"inner","licenses":[{"expression":"MIT OR Apache-2.0"}]}]},
 {"type":"file","name":"/etc/passwd"}]}`

func TestParse(t *testing.T) {
	t.Parallel()
	fromSPDX := &Document{Format: SPDX, Packages: []Package{
		{Name: "bash", Version: "5", License: "GPL-3.0-or-later", Concluded: true},
		{Name: "nolicence"},
		{Name: "zlib", Version: "1.3", License: "Zlib", PURL: "pkg:deb/zlib@1.3"},
	}}
	statement := `{"_type":"https://in-toto.io/Statement/v0.1","predicateType":"https://spdx.dev/Document","predicate":` + spdxText + `}`
	text, _ := json.Marshal(spdxText)
	for name, c := range map[string]struct {
		in   string
		want *Document
	}{
		"spdx":      {spdxText, fromSPDX},
		"statement": {statement, fromSPDX},
		"envelope":  {`{"payloadType":"application/vnd.in-toto+json","payload":"` + base64.StdEncoding.EncodeToString([]byte(statement)) + `"}`, fromSPDX},
		"wrapped":   {`{"predicate":{"Data":` + string(text) + `}}`, fromSPDX},
		"cyclonedx": {cycloneText, &Document{Format: CycloneDX, Packages: []Package{
			{Name: "inner", License: "MIT OR Apache-2.0"},
			{Name: "org.example/a", Version: "1", License: "MIT AND Own words", PURL: "pkg:maven/a", Words: true},
		}}},
	} {
		got, err := Parse([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	deep := spdxText
	for range maxNesting + 1 {
		deep = `{"predicate":` + deep + `}`
	}
	for name, in := range map[string]string{
		"empty": "", "object": "{}", "list": "[1]", "provenance": `{"predicate":{"buildType":"x"}}`, "payload": `{"payload":"***"}`, "deep": deep, "null": "null",
	} {
		if got, err := Parse([]byte(in)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// blobs is a store in memory.
type blobs map[digest.Digest][]byte

func (b blobs) ReadBlob(_ context.Context, d digest.Digest, limit int64) ([]byte, error) {
	c, ok := b[d]
	if !ok || int64(len(c)) > limit {
		return nil, fmt.Errorf("no blob %s", d)
	}
	return c, nil
}

func (b blobs) put(content string) digest.Digest {
	d := digest.FromString(content)
	b[d] = []byte(content)
	return d
}

// manifest puts a manifest with one layer.
func (b blobs) manifest(content, fields string) digest.Digest {
	return b.put(fmt.Sprintf(`{%s"layers":[{"digest":%q,"size":1,"annotations":{"in-toto.io/predicate-type":"https://spdx.dev/Document"}}]}`, fields, b.put(content)))
}

func TestFind(t *testing.T) {
	t.Parallel()
	b := blobs{}
	image := digest.FromString("image")
	sig, att, bom := b.manifest("s", ""), b.manifest(`{"predicate":`+spdxText+`}`, ""), b.manifest(cycloneText, "")
	referrer, other := b.manifest(spdxText, `"artifactType":"application/spdx+json",`), b.manifest("x", `"artifactType":"application/x",`)
	list := b.put(fmt.Sprintf(`{"manifests":[{"digest":%q},{"digest":%q},{"digest":%q}]}`, referrer, other, digest.FromString("absent")))
	kit := b.manifest(`{"predicate":`+spdxText+`}`, `"x":1,`)
	index := b.put(fmt.Sprintf(`{"manifests":[{"digest":%q,"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":%q}},
		{"digest":"sha256:00","annotations":{"vnd.docker.reference.type":"attestation-manifest"}}]}`, kit, image))
	at := tree.AttachmentTag(image)
	docs := []*tree.Document{{Repositories: []tree.Repository{{
		Name:      "library/app",
		Tags:      []tree.Tag{{Name: "v1", Digest: index}, {Name: at, Digest: list}, {Name: at + ".sig", Digest: sig}, {Name: at + ".att", Digest: att}, {Name: at + ".sbom", Digest: bom}},
		Revisions: []tree.Revision{{Digest: index, MediaType: ocispec.MediaTypeImageIndex, Sources: []ref.Reference{{Repository: "app"}}}, {Digest: list, MediaType: ocispec.MediaTypeImageIndex}},
	}}}}
	found, errs := Find(t.Context(), docs, b)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "no blob") {
		t.Errorf("errors %v", errs)
	}
	kinds := map[Kind]int{}
	packages := 0
	for _, a := range found {
		if a.Subject != image || a.Repository != "library/app" {
			t.Errorf("%+v", a)
		}
		kinds[a.Kind]++
		docs, err := a.Read(t.Context(), b)
		for _, d := range docs {
			packages += len(d.Packages)
		}
		if err != nil && a.Digest != other {
			t.Error(err)
		}
	}
	if d := cmp.Diff(map[Kind]int{Signature: 1, Attestation: 2, SBOM: 2, Other: 1}, kinds); d != "" {
		t.Error(d)
	}
	if packages != 3+3+2+3 {
		t.Errorf("%d packages", packages)
	}
}
