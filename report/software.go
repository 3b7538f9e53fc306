package report

import (
	"cmp"
	"context"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image/sbom"
	"github.com/clusterimage/sealer/registry/tree"
)

// software adds signatures, attestations and the statements of SBOMs.
func (g *gatherer) software(ctx context.Context, parts []Part) error {
	var docs []*tree.Document
	seen := map[*tree.Document]bool{}
	for _, p := range parts {
		for _, d := range p.Documents {
			if !seen[d] {
				seen[d] = true
				docs = append(docs, d)
			}
		}
	}
	found, errs := sbom.Find(ctx, docs, g.blobs)
	for _, err := range errs {
		g.image.Software.Unread = append(g.image.Software.Unread, err.Error())
	}
	by := map[digest.Digest][]*collected{} // the images that have the manifest
	for _, m := range g.images {
		for d := range m.digests {
			by[d] = append(by[d], m)
		}
	}
	s := inventory{packages: map[sbom.Package]map[string]bool{}, read: map[digest.Digest][]sbom.Package{}}
	for _, a := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		images := by[a.Subject]
		slices.SortFunc(images, func(a, b *collected) int { return cmp.Compare(a.Reference, b.Reference) })
		out := Attached{Reference: a.Repository, Kind: string(a.Kind), Type: a.Type, Subject: a.Subject, Digest: a.Digest}
		packages, err := s.documents(ctx, a, g.blobs)
		if err != nil {
			g.image.Software.Unread = append(g.image.Software.Unread, err.Error())
		}
		for _, m := range images {
			out.Reference = m.Reference
			m.count(a.Kind)
			m.Packages += len(packages)
			s.add(m.Reference, packages)
			if len(a.Content) > 0 && a.Kind != sbom.SBOM {
				m.SBOMs++
			}
		}
		g.image.Attached = append(g.image.Attached, out)
	}
	for _, m := range g.images {
		switch {
		case m.Why != "":
		case m.SBOMs > 0:
			g.image.Software.Images++
		default:
			g.image.Software.Without++
		}
	}
	g.image.Software.Packages, g.image.Software.Licenses = s.lists()
	return nil
}

func (m *collected) count(k sbom.Kind) {
	switch k {
	case sbom.Signature:
		m.Signatures++
	case sbom.Attestation:
		m.Attestations++
	case sbom.SBOM:
		m.SBOMs++
	}
}

// An inventory collects packages, with the images that have each.
type inventory struct {
	packages map[sbom.Package]map[string]bool
	read     map[digest.Digest][]sbom.Package // by artifact
}

// documents returns the packages of an artifact, which is read once.
func (s *inventory) documents(ctx context.Context, a sbom.Attached, blobs Blobs) ([]sbom.Package, error) {
	if list, known := s.read[a.Digest]; known {
		return list, nil
	}
	docs, err := a.Read(ctx, blobs)
	var list []sbom.Package
	for _, d := range docs {
		list = append(list, d.Packages...)
	}
	s.read[a.Digest] = list
	return list, err
}

func (s *inventory) add(image string, packages []sbom.Package) {
	for _, p := range packages {
		p = sbom.Package{Name: p.Name, Version: p.Version, License: p.License}
		if s.packages[p] == nil {
			s.packages[p] = map[string]bool{}
		}
		s.packages[p][image] = true
	}
}

// lists returns the packages by name, and the licences by their number of packages.
func (s *inventory) lists() ([]Package, []License) {
	var packages []Package
	licenses := map[string]*License{}
	images := map[string]map[string]bool{}
	for p, in := range s.packages {
		out := Package{Name: p.Name, Version: p.Version, License: p.License}
		if licenses[p.License] == nil {
			licenses[p.License], images[p.License] = &License{Name: p.License}, map[string]bool{}
		}
		licenses[p.License].Packages++
		for ref := range in {
			out.Images = append(out.Images, ref)
			images[p.License][ref] = true
		}
		slices.Sort(out.Images)
		packages = append(packages, out)
	}
	slices.SortFunc(packages, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.License, b.License))
	})
	var list []License
	for name, l := range licenses {
		l.Images = len(images[name])
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b License) int {
		return cmp.Or(cmp.Compare(b.Packages, a.Packages), cmp.Compare(a.Name, b.Name))
	})
	return packages, list
}
