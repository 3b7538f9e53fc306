package sbom

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/registry/ref"
)

// The members of an SPDX 2.3 document in JSON, as far as they are written; the
// names are the specification's.
type (
	spdxCreation struct {
		Comment  string   `json:"comment,omitempty"`
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxExternal struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxCode struct {
		Value string `json:"packageVerificationCodeValue"`
	}
	spdxElement struct {
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Version       string         `json:"versionInfo,omitempty"`
		Location      string         `json:"downloadLocation"`
		FilesAnalyzed bool           `json:"filesAnalyzed"`
		Code          *spdxCode      `json:"packageVerificationCode,omitempty"`
		Checksums     []spdxChecksum `json:"checksums,omitempty"`
		Concluded     string         `json:"licenseConcluded"`
		Declared      string         `json:"licenseDeclared"`
		FromFiles     []string       `json:"licenseInfoFromFiles,omitempty"`
		Copyright     string         `json:"copyrightText"`
		External      []spdxExternal `json:"externalRefs,omitempty"`
		Purpose       string         `json:"primaryPackagePurpose,omitempty"`
		Comment       string         `json:"comment,omitempty"`
	}
	spdxFile struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"fileName"`
		Checksums []spdxChecksum `json:"checksums"`
		Concluded string         `json:"licenseConcluded"`
		InFiles   []string       `json:"licenseInfoInFiles"`
		Copyright string         `json:"copyrightText"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
	spdxWords struct {
		ID   string `json:"licenseId"`
		Text string `json:"extractedText"`
		Name string `json:"name"`
	}
)

const (
	spdxDocument = "SPDXRef-DOCUMENT"
	spdxRoot     = "SPDXRef-ClusterImage"
)

// WriteSPDX writes i as an SPDX 2.3 document in JSON. tool names the program and
// its version. An equal i gives equal bytes: the time is the image's, and the
// epoch where the image has none.
func WriteSPDX(w io.Writer, i *Inventory, tool string) error {
	creation := spdxCreation{Created: i.Created.Format(time.RFC3339), Creators: []string{"Tool: " + tool}}
	if i.Created.IsZero() {
		creation.Created = time.Unix(0, 0).UTC().Format(time.RFC3339)
		creation.Comment = "The image does not say when it was made; the epoch stands for that time."
	}
	s := newStream(w)
	s.member("spdxVersion", "SPDX-2.3")
	s.member("dataLicense", "CC0-1.0")
	s.member("SPDXID", spdxDocument)
	s.member("name", i.Name)
	s.member("documentNamespace", "https://github.com/clusterimage/sealer/sbom/"+strings.Replace(i.Digest.String(), ":", "-", 1))
	s.member("creationInfo", creation)
	words := map[string]string{}
	s.list("packages", i.spdxElements(words))
	if len(i.Files) > 0 {
		s.list("files", func(yield func(any) bool) {
			for _, f := range i.Files {
				if !yield(spdxFileOf(f)) {
					return
				}
			}
		})
	}
	s.list("relationships", i.spdxRelationships())
	if len(words) > 0 {
		s.list("hasExtractedLicensingInfos", func(yield func(any) bool) {
			for _, id := range slices.Sorted(maps.Keys(words)) {
				if !yield(spdxWords{id, words[id], words[id]}) {
					return
				}
			}
		})
	}
	return s.close()
}

// spdxElements yields all packages. It adds to words the licences that are no
// expressions, by the names that stand for them.
func (i *Inventory) spdxElements(words map[string]string) iter.Seq[any] {
	return func(yield func(any) bool) {
		if !yield(i.spdxRootElement()) {
			return
		}
		for _, l := range i.Layers {
			e := spdxUnknown("SPDXRef-Layer-"+identifier(l.ID.String()), l.ID.String())
			e.Checksums = []spdxChecksum{{"SHA256", l.ID.Encoded()}}
			e.Comment = strings.TrimSpace("layer " + l.Type + " " + l.Value)
			if !yield(e) {
				return
			}
		}
		for _, c := range i.Charts {
			e := spdxUnknown(c.spdxID(), c.Name)
			e.Version, e.Comment = c.Version, "Helm chart at "+c.Path
			e.Checksums = []spdxChecksum{{"SHA256", c.SHA256}}
			e.External = purlOf(helmPURL(c.Name, c.Version))
			if c.License != "" {
				e.Declared = spdxLicense(Package{License: c.License, Words: !isExpression(c.License)}, words)
			}
			if !yield(e) {
				return
			}
		}
		for _, m := range i.Images {
			e := spdxUnknown(m.spdxID(), m.Reference.Registry+"/"+m.Reference.Repository)
			e.Version, e.Purpose = cmp.Or(m.Reference.Tag, m.Digest.String()), "CONTAINER"
			e.Checksums = []spdxChecksum{{"SHA256", m.Digest.Encoded()}}
			e.External = purlOf(ociPURL(m.Reference, m.Digest))
			if len(m.SBOMs) == 0 {
				e.Comment = "The image has no SBOM: nothing is known of its software."
			}
			if !yield(e) {
				return
			}
		}
		seen := map[Package]bool{}
		for _, m := range i.Images {
			for _, p := range m.Packages {
				if seen[p] {
					continue
				}
				seen[p] = true
				if !yield(p.spdx(words)) {
					return
				}
			}
		}
	}
}

func (i *Inventory) spdxRootElement() spdxElement {
	e := spdxUnknown(spdxRoot, i.Name)
	e.Version = i.Digest.String()
	e.Checksums = []spdxChecksum{{"SHA256", i.Digest.Encoded()}}
	r, _ := ref.Parse(i.Name) // an image without a name has its ID there
	e.External = purlOf(ociPURL(r, i.Digest))
	if len(i.Files) > 0 {
		e.FilesAnalyzed, e.Code, e.FromFiles = true, i.verificationCode(), []string{NoAssertion}
	}
	return e
}

// verificationCode is that of SPDX 2.3, section 7.9.
func (i *Inventory) verificationCode() *spdxCode {
	var sums []string
	for _, f := range i.Files {
		sums = append(sums, f.SHA1)
	}
	slices.Sort(sums)
	h := sha1.New()
	for _, s := range sums {
		_, _ = io.WriteString(h, s) // a hash takes all
	}
	return &spdxCode{hex.EncodeToString(h.Sum(nil))}
}

func (i *Inventory) spdxRelationships() iter.Seq[any] {
	return func(yield func(any) bool) {
		if !yield(spdxRelationship{spdxDocument, "DESCRIBES", spdxRoot}) {
			return
		}
		seen := map[string]bool{}
		holds := func(to string) bool {
			if seen[to] {
				return true
			}
			seen[to] = true
			return yield(spdxRelationship{spdxRoot, "CONTAINS", to})
		}
		for _, l := range i.Layers {
			if !holds("SPDXRef-Layer-" + identifier(l.ID.String())) {
				return
			}
		}
		for _, c := range i.Charts {
			if !holds(c.spdxID()) {
				return
			}
		}
		for _, m := range i.Images {
			if !holds(m.spdxID()) {
				return
			}
			for _, p := range m.Packages {
				if !yield(spdxRelationship{m.spdxID(), "CONTAINS", p.spdxID()}) {
					return
				}
			}
		}
		for _, f := range i.Files {
			if !holds(f.spdxID()) {
				return
			}
		}
	}
}

// spdxUnknown returns a package of which nothing is stated but its name.
func spdxUnknown(id, name string) spdxElement {
	return spdxElement{ID: id, Name: name, Location: NoAssertion, Concluded: NoAssertion, Declared: NoAssertion, Copyright: NoAssertion}
}

func purlOf(locator string) []spdxExternal {
	return []spdxExternal{{"PACKAGE-MANAGER", "purl", locator}}
}

func spdxFileOf(f File) spdxFile {
	return spdxFile{
		ID: f.spdxID(), Name: "./" + f.Path, Checksums: []spdxChecksum{{"SHA1", f.SHA1}, {"SHA256", f.SHA256}},
		Concluded: NoAssertion, InFiles: []string{NoAssertion}, Copyright: NoAssertion,
	}
}

func (f File) spdxID() string  { return "SPDXRef-File-" + identifier(f.Path) }
func (c Chart) spdxID() string { return "SPDXRef-Chart-" + identifier(c.Path) }
func (m Image) spdxID() string { return "SPDXRef-Image-" + identifier(m.Reference.String()) }

func (p Package) spdxID() string {
	kind := ""
	if p.Concluded {
		kind = "concluded"
	}
	return "SPDXRef-Package-" + identifier(p.Name, p.Version, p.License, p.PURL, kind)
}

func (p Package) spdx(words map[string]string) spdxElement {
	e := spdxUnknown(p.spdxID(), cmp.Or(p.Name, NoAssertion))
	e.Version = p.Version
	if p.PURL != "" {
		e.External = purlOf(p.PURL)
	}
	if p.Concluded {
		e.Concluded = spdxLicense(p, words)
	} else {
		e.Declared = spdxLicense(p, words)
	}
	return e
}

// spdxLicense returns the licence of p as an expression: of other words a name,
// which it adds to words.
func spdxLicense(p Package, words map[string]string) string {
	switch {
	case p.License == "":
		return NoAssertion
	case !p.Words:
		return p.License
	}
	id := "LicenseRef-" + identifier(p.License)
	words[id] = p.License
	return id
}
