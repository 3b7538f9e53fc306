package sbom

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The formats of a Document.
const (
	SPDX      = "SPDX"
	CycloneDX = "CycloneDX"
)

// ErrUnknown is wrapped by Parse's error about content that is no SBOM.
var ErrUnknown = errors.New("neither SPDX nor CycloneDX in JSON")

// A Document is the content of one SBOM. Packages are sorted by name, version and
// licence, without repetitions.
type Document struct {
	Format   string // SPDX or CycloneDX
	Packages []Package
}

// A Package is one piece of software. License is an SPDX expression or the text
// that stands in its place, "" where the document states none.
type Package struct {
	Name    string
	Version string
	License string
	PURL    string // package URL
	// Concluded says that the author of the SBOM concluded the licence, which the
	// software itself does not declare.
	Concluded bool
	// Words says that the document gives the licence in its own words, not as an
	// SPDX expression.
	Words bool
}

const (
	// maxNesting bounds the statements inside statements, and components inside
	// components.
	maxNesting = 16
	// maxPackages bounds the packages of one document: a few bytes of JSON are a
	// hundred of memory.
	maxPackages = 250_000
)

// ErrTooLarge is wrapped by Parse's error about a document beyond the limits.
var ErrTooLarge = errors.New("the SBOM is too large")

// Parse reads an SBOM: SPDX 2 or CycloneDX 1 as JSON, also as the predicate of an
// in-toto statement, and that in a DSSE envelope. The error wraps ErrUnknown for
// other content.
func Parse(b []byte) (*Document, error) { return parse(b, 0) }

func parse(b []byte, depth int) (*Document, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: more than %d envelopes", ErrUnknown, maxNesting)
	}
	var head struct {
		SPDX      string          `json:"spdxVersion"`
		CycloneDX string          `json:"bomFormat"`
		Predicate json.RawMessage `json:"predicate"`
		Data      json.RawMessage `json:"Data"` // older cosign wraps the predicate
		Payload   string          `json:"payload"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	switch {
	case strings.HasPrefix(head.SPDX, "SPDX-"):
		return parseSPDX(b)
	case head.CycloneDX == CycloneDX:
		return parseCycloneDX(b)
	case head.Payload != "":
		payload, err := base64.StdEncoding.DecodeString(head.Payload)
		if err != nil {
			return nil, fmt.Errorf("%w: payload: %w", ErrUnknown, err)
		}
		return parse(payload, depth+1)
	case len(head.Predicate) > 0:
		return parse(head.Predicate, depth+1)
	case len(head.Data) > 0:
		var text string
		if json.Unmarshal(head.Data, &text) == nil {
			return parse([]byte(text), depth+1)
		}
		return parse(head.Data, depth+1)
	}
	return nil, ErrUnknown
}

// spdx is the part of an SPDX 2.3 document that is read: section 7 of the
// specification.
type spdx struct {
	Packages bounded[spdxPackage] `json:"packages"`
}

type spdxPackage struct {
	Name      string `json:"name"`
	Version   string `json:"versionInfo"`
	Concluded string `json:"licenseConcluded"`
	Declared  string `json:"licenseDeclared"`
	External  []struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	} `json:"externalRefs"`
	Purpose string `json:"primaryPackagePurpose"`
}

// A bounded list is read one element after the other, and no further than
// maxPackages.
type bounded[T any] []T

// UnmarshalJSON implements json.Unmarshaler. The error wraps ErrTooLarge.
func (l *bounded[T]) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("%v, want a list", t)
	}
	for dec.More() {
		if len(*l) == maxPackages {
			return fmt.Errorf("%w: more than %d packages", ErrTooLarge, maxPackages)
		}
		var v T
		if err := dec.Decode(&v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	return nil
}

func parseSPDX(b []byte) (*Document, error) {
	var doc spdx
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("SPDX: %w", err)
	}
	out := &Document{Format: SPDX}
	for _, p := range doc.Packages {
		if p.Purpose == "CONTAINER" {
			continue // the image itself
		}
		pkg := Package{Name: p.Name, Version: p.Version, License: cmp.Or(stated(p.Concluded), stated(p.Declared))}
		pkg.Concluded = pkg.License != "" && pkg.License != stated(p.Declared)
		pkg.Words = pkg.License != "" && !isExpression(pkg.License)
		for _, e := range p.External {
			if e.Type == "purl" {
				pkg.PURL = e.Locator
				break
			}
		}
		out.Packages = append(out.Packages, pkg)
	}
	out.sort()
	return out, nil
}

// stated returns a licence, "" for SPDX's words for none.
func stated(license string) string {
	if license == "NOASSERTION" || license == "NONE" {
		return ""
	}
	return license
}

// A component is the part of a CycloneDX component that is read.
type component struct {
	Type     string `json:"type"`
	Group    string `json:"group"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	PURL     string `json:"purl"`
	Licenses []struct {
		License struct {
			ID              string `json:"id"`
			Name            string `json:"name"`
			Acknowledgement string `json:"acknowledgement"`
		} `json:"license"`
		Expression      string `json:"expression"`
		Acknowledgement string `json:"acknowledgement"`
	} `json:"licenses"`
	Components bounded[component] `json:"components"`
}

func parseCycloneDX(b []byte) (*Document, error) {
	var doc struct {
		Components bounded[component] `json:"components"`
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("CycloneDX: %w", err)
	}
	out := &Document{Format: CycloneDX}
	if err := out.add(doc.Components, 0); err != nil {
		return nil, fmt.Errorf("CycloneDX: %w", err)
	}
	out.sort()
	return out, nil
}

func (d *Document) add(list []component, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%w: components %d deep", ErrTooLarge, depth)
	}
	for _, c := range list {
		if err := d.add(c.Components, depth+1); err != nil {
			return err
		}
		if c.Type == "file" {
			continue
		}
		if len(d.Packages) == maxPackages {
			return fmt.Errorf("%w: more than %d components", ErrTooLarge, maxPackages)
		}
		p := Package{Name: c.Name, Version: c.Version, PURL: c.PURL}
		if c.Group != "" {
			p.Name = c.Group + "/" + c.Name
		}
		var licenses []string
		for _, l := range c.Licenses {
			text := cmp.Or(l.Expression, l.License.ID, l.License.Name)
			if text == "" {
				continue
			}
			concluded := l.Acknowledgement == "concluded" || l.License.Acknowledgement == "concluded"
			p.Concluded = concluded && (p.Concluded || len(licenses) == 0)
			p.Words = p.Words || l.Expression == "" && l.License.ID == "" || !isExpression(text)
			if len(c.Licenses) > 1 && strings.Contains(text, " ") && isExpression(text) {
				text = "(" + text + ")"
			}
			licenses = append(licenses, text)
		}
		p.License = strings.Join(licenses, " AND ")
		d.Packages = append(d.Packages, p)
	}
	return nil
}

func (d *Document) sort() {
	slices.SortFunc(d.Packages, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.License, b.License), cmp.Compare(a.PURL, b.PURL))
	})
	d.Packages = slices.Compact(d.Packages)
}
