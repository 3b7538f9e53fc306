package readers

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/spdx/tools-golang/utils"
)

// documents returns the SBOMs whose file names end in suffix, by name: the sample
// of image/sbom, and the files in the directory $SEALER_SBOMS.
func documents(t *testing.T, suffix string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../../image/sbom/testdata/*" + suffix)
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("SEALER_SBOMS"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) == 0 {
		t.Fatal("no document " + suffix)
	}
	return out
}

// TestSPDX reads with SPDX's library, and checks the relationships and the code
// that the files verify the package by.
func TestSPDX(t *testing.T) {
	for name, b := range documents(t, ".spdx.json") {
		doc, err := spdxjson.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := spdxlib.ValidateDocument(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		described, err := spdxlib.GetDescribedPackageIDs(doc)
		if err != nil || len(described) != 1 {
			t.Errorf("%s: describes %v, %v", name, described, err)
		}
		ids := map[common.ElementID]bool{"DOCUMENT": true}
		licenses := map[string]bool{}
		for _, p := range doc.Packages {
			if ids[p.PackageSPDXIdentifier] {
				t.Errorf("%s: %s stands twice", name, p.PackageSPDXIdentifier)
			}
			ids[p.PackageSPDXIdentifier], licenses[p.PackageLicenseDeclared] = true, true
			if p.FilesAnalyzed {
				want, err := utils.GetVerificationCode(doc.Files, "")
				if err != nil || want.Value != p.PackageVerificationCode.Value {
					t.Errorf("%s: verification code %s, want %s (%v)", name, p.PackageVerificationCode.Value, want.Value, err)
				}
			}
		}
		for _, f := range doc.Files {
			ids[f.FileSPDXIdentifier] = true
		}
		for _, r := range doc.Relationships {
			if !ids[r.RefA.ElementRefID] || !ids[r.RefB.ElementRefID] {
				t.Errorf("%s: a relationship of something else: %+v", name, r)
			}
		}
		for _, l := range doc.OtherLicenses {
			delete(licenses, l.LicenseIdentifier)
		}
		for l := range licenses {
			if strings.HasPrefix(l, "LicenseRef-") {
				t.Errorf("%s: %s is not defined", name, l)
			}
		}
	}
}

// TestCycloneDX reads with CycloneDX's library, whose module has the schema.
func TestCycloneDX(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	c := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name, schema); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range documents(t, ".cdx.json") {
		var bom cyclonedx.BOM
		if err := cyclonedx.NewBOMDecoder(bytes.NewReader(b), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if bom.Components == nil || bom.Metadata.Component == nil || bom.SpecVersion != cyclonedx.SpecVersion1_6 {
			t.Errorf("%s: %+v", name, bom)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
