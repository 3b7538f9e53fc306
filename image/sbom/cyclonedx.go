package sbom

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

// The members of a CycloneDX 1.6 document in JSON, as far as they are written; the
// names are the specification's.
type (
	cdxHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	cdxProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	cdxName struct {
		Name            string `json:"name"`
		Acknowledgement string `json:"acknowledgement,omitempty"`
	}
	cdxLicense struct {
		License         *cdxName `json:"license,omitempty"`
		Expression      string   `json:"expression,omitempty"`
		Acknowledgement string   `json:"acknowledgement,omitempty"`
	}
	cdxComponent struct {
		Type       string         `json:"type"`
		Ref        string         `json:"bom-ref,omitempty"`
		Name       string         `json:"name"`
		Version    string         `json:"version,omitempty"`
		Hashes     []cdxHash      `json:"hashes,omitempty"`
		Licenses   []cdxLicense   `json:"licenses,omitempty"`
		PURL       string         `json:"purl,omitempty"`
		Components []cdxComponent `json:"components,omitempty"`
		Properties []cdxProperty  `json:"properties,omitempty"`
	}
	cdxTools struct {
		Components []cdxComponent `json:"components"`
	}
	cdxMetadata struct {
		Timestamp string       `json:"timestamp,omitempty"`
		Tools     cdxTools     `json:"tools"`
		Component cdxComponent `json:"component"`
	}
	cdxComposition struct {
		Aggregate  string   `json:"aggregate"`
		Assemblies []string `json:"assemblies"`
	}
)

// WriteCycloneDX writes i as a CycloneDX 1.6 document in JSON, with the version of
// this program. An equal i gives equal bytes. The software of an image lies inside
// its component; the images without an SBOM are the composition "unknown".
func WriteCycloneDX(w io.Writer, i *Inventory, version string) error {
	r, _ := ref.Parse(i.Name) // an image without a name has its ID there
	meta := cdxMetadata{
		Tools: cdxTools{[]cdxComponent{{Type: "application", Name: "sealer", Version: version}}},
		Component: cdxComponent{
			Type: "container", Ref: "cluster-image", Name: i.Name, Version: i.Digest.String(),
			Hashes: []cdxHash{{"SHA-256", i.Digest.Encoded()}}, PURL: ociPURL(r, i.Digest),
		},
	}
	if !i.Created.IsZero() {
		meta.Timestamp = i.Created.Format(time.RFC3339)
	}
	s := newStream(w)
	s.member("$schema", "http://cyclonedx.org/schema/bom-1.6.schema.json")
	s.member("bomFormat", CycloneDX)
	s.member("specVersion", "1.6")
	s.member("serialNumber", "urn:uuid:"+uuid(i.Digest))
	s.member("version", 1)
	s.member("metadata", meta)
	s.list("components", i.cdxComponents())
	var unknown []string
	for _, m := range i.Images {
		if len(m.SBOMs) == 0 {
			unknown = append(unknown, m.cdxRef())
		}
	}
	if len(unknown) > 0 {
		s.member("compositions", []cdxComposition{{"unknown", unknown}})
	}
	return s.close()
}

// uuid makes a UUID of version 8 (RFC 9562, section 5.8) out of a digest.
func uuid(d digest.Digest) string {
	h := identifier(d.String(), "a") + identifier(d.String(), "b")
	variant, _ := strconv.ParseUint(h[16:17], 16, 8) // it is a digit
	return fmt.Sprintf("%s-%s-8%s-%x%s-%s", h[:8], h[8:12], h[13:16], 8|variant&3, h[17:20], h[20:32])
}

func (i *Inventory) cdxComponents() iter.Seq[any] {
	return func(yield func(any) bool) {
		seen := map[string]bool{}
		for _, l := range i.Layers {
			if seen[l.ID.String()] {
				continue
			}
			seen[l.ID.String()] = true
			if !yield(cdxComponent{
				Type: "file", Ref: "layer:" + l.ID.String(), Name: l.ID.String(), Hashes: []cdxHash{{"SHA-256", l.ID.Encoded()}},
				Properties: []cdxProperty{{"sealer:layer:type", l.Type}, {"sealer:layer:value", l.Value}},
			}) {
				return
			}
		}
		for _, c := range i.Charts {
			if !yield(c.cdx()) {
				return
			}
		}
		for _, m := range i.Images {
			if !yield(m.cdx()) {
				return
			}
		}
		for _, f := range i.Files {
			if !yield(cdxComponent{Type: "file", Ref: "file:" + f.Path, Name: f.Path, Hashes: []cdxHash{{"SHA-1", f.SHA1}, {"SHA-256", f.SHA256}}}) {
				return
			}
		}
	}
}

func (c Chart) cdx() cdxComponent {
	return cdxComponent{
		Type: "application", Ref: "chart:" + c.Path, Name: c.Name, Version: c.Version, Hashes: []cdxHash{{"SHA-256", c.SHA256}},
		Licenses: cdxLicenses(Package{License: c.License, Words: !isExpression(c.License)}), PURL: helmPURL(c.Name, c.Version),
		Properties: []cdxProperty{{"sealer:chart:path", c.Path}},
	}
}

func (m Image) cdxRef() string { return "image:" + m.Reference.String() }

func (m Image) cdx() cdxComponent {
	out := cdxComponent{
		Type: "container", Ref: m.cdxRef(), Name: m.Reference.Registry + "/" + m.Reference.Repository,
		Version: cmp.Or(m.Reference.Tag, m.Digest.String()), Hashes: []cdxHash{{"SHA-256", m.Digest.Encoded()}},
		Licenses: cdxLicenses(Package{}), PURL: ociPURL(m.Reference, m.Digest),
	}
	for _, p := range m.Packages {
		out.Components = append(out.Components, cdxComponent{
			Type: "library", Ref: m.cdxRef() + "#" + p.spdxID(), Name: cmp.Or(p.Name, NoAssertion), Version: p.Version,
			Licenses: cdxLicenses(p), PURL: p.PURL,
		})
	}
	return out
}

// cdxLicenses returns the licence of p as an expression, as a name where it is
// none, and SPDX's word for "not stated" where p has none.
func cdxLicenses(p Package) []cdxLicense {
	acknowledgement := "declared"
	if p.Concluded {
		acknowledgement = "concluded"
	}
	switch {
	case p.License == "":
		return []cdxLicense{{License: &cdxName{Name: NoAssertion}}}
	case p.Words:
		return []cdxLicense{{License: &cdxName{p.License, acknowledgement}}}
	}
	return []cdxLicense{{Expression: p.License, Acknowledgement: acknowledgement}}
}
