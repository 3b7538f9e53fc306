package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/licensecheck"
)

// sure is the share of a licence file, in percent, that has to be the text of a
// known licence for the inventory to name it. Below it the inventory says
// NOASSERTION.
const sure = 75

var licenceName = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|copyright)([.-].*)?$`)

// linked returns the modules of others that are linked into the program at path,
// by its own build information.
func linked(path string) ([]*debug.Module, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what is linked into %s: %w", path, err)
	}
	var out []*debug.Module
	for _, m := range info.Deps {
		switch {
		case m.Replace == nil:
			out = append(out, m)
		case !strings.HasPrefix(m.Replace.Path, "."):
			out = append(out, m.Replace)
		default: // a directory of this source, under its licence
		}
	}
	return out, nil
}

// licences returns the licence files of the modules in the program, as
// "MODULE@VERSION/FILE", and Go's own.
func (r *release) licences(ctx context.Context, path string) ([]file, error) {
	modules, err := linked(path)
	if err != nil {
		return nil, err
	}
	goroot, err := r.command(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	out, err := licenceFiles(goroot, "go")
	if err != nil {
		return nil, err
	}
	list, err := r.command(ctx, "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(list) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	for _, m := range modules {
		files, err := licenceFiles(dirs[m.Path], m.Path+"@"+m.Version)
		if err != nil {
			return nil, fmt.Errorf("licence of module %s: %w", m.Path, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("module %s has no licence file in %s: it must not be published", m.Path, dirs[m.Path])
		}
		out = append(out, files...)
	}
	return out, nil
}

func licenceFiles(dir, name string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceName.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: name + "/" + e.Name(), mode: 0o644, data: b})
	}
	return out, nil
}

// The parts of an SPDX 2.3 document that are used here; see
// https://spdx.github.io/spdx-spec/v2.3/.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicence   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string          `json:"SPDXID"`
		Name      string          `json:"name"`
		Version   string          `json:"versionInfo"`
		Location  string          `json:"downloadLocation"`
		Analysed  bool            `json:"filesAnalyzed"`
		Concluded string          `json:"licenseConcluded"`
		Declared  string          `json:"licenseDeclared"`
		Copyright string          `json:"copyrightText"`
		Checksums []spdxChecksum  `json:"checksums,omitempty"`
		Refs      []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

// inventory writes sealer_VERSION_SYSTEM_ARCH.spdx.json: the program, Go, and
// every module that is linked, with the licences that their files are the text
// of.
func (r *release) inventory(p platform, path string, licences []file) error {
	modules, err := linked(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	name := fmt.Sprintf("sealer_%s_%s_%s", r.version, p.system(), p.arch())
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://github.com/clusterimage/sealer/spdx/" + name + "-" + hex.EncodeToString(sum[:]),
		Creation:  spdxCreation{Created: r.time.Format(time.RFC3339), Creators: []string{"Tool: sealer-release"}},
		Packages: []spdxPackage{{
			ID: "SPDXRef-sealer", Name: "sealer", Version: r.version, Location: "https://github.com/clusterimage/sealer/commit/" + r.revision,
			Concluded: unknown, Declared: "Apache-2.0", Copyright: unknown,
			Checksums: []spdxChecksum{{"SHA256", hex.EncodeToString(sum[:])}},
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-sealer"}},
	}
	d.add("SPDXRef-go", "go", strings.TrimPrefix(info.GoVersion, "go"), "https://go.dev/dl/", "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"), declared(licences, "go/"))
	for i, m := range modules {
		d.add(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version, "https://proxy.golang.org/"+escape(m.Path)+"/@v/"+escape(m.Version)+".zip",
			"pkg:golang/"+m.Path+"@"+m.Version, declared(licences, m.Path+"@"+m.Version+"/"))
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".spdx.json"), out.Bytes(), 0o644)
}

func (d *spdxDocument) add(id, name, version, location, purl, licence string) {
	d.Packages = append(d.Packages, spdxPackage{
		ID: id, Name: name, Version: version, Location: location, Concluded: unknown, Declared: licence, Copyright: unknown,
		Refs: []spdxReference{{"PACKAGE-MANAGER", "purl", purl}},
	})
	d.Relationships = append(d.Relationships, spdxRelationship{"SPDXRef-sealer", "STATIC_LINK", id})
}

// declared returns the SPDX expression of the licence files whose names begin
// with prefix.
func declared(licences []file, prefix string) string {
	var ids []string
	for _, f := range licences {
		rest, ok := strings.CutPrefix(f.name, prefix)
		if !ok || strings.Contains(rest, "/") {
			continue
		}
		c := licensecheck.Scan(f.data)
		if c.Percent < sure {
			continue
		}
		for _, m := range c.Match {
			if !m.IsURL && !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	if len(ids) == 0 {
		return unknown
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND ")
}

// escape writes the capitals of a module path as Go's proxies want them.
func escape(path string) string {
	var b strings.Builder
	for _, c := range path {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('!')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
