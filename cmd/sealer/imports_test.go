package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/clusterimage/sealer/"

// allowed is the last column of the table in section 2 of the design: what a
// package may import of ours. A name that ends in /... stands for all below.
var allowed = map[string][]string{
	"kubefile":            nil,
	"registry/ref":        nil,
	"registry/platform":   nil,
	"registry/tree":       {"registry/ref"},
	"registry/sign":       nil,
	"parser":              {"kubefile"},
	"imagelist":           {"registry/ref", "registry/platform"},
	"registry/policy":     {"registry/ref", "registry/sign"},
	"registry/remote":     {"registry/ref", "registry/platform", "registry/sign"},
	"registry/chart":      {"registry/remote", "registry/ref"},
	"grpc":                nil,
	"registry/containerd": {"grpc"},
	"registry/mirror":     {"registry/remote", "registry/tree", "registry/ref", "registry/platform"},
	"registry":            {"certificate", "registry/tree", "registry/ref", "registry/platform"},
	"image/imagetest":     {"image"},
	"image/inventory":     nil,
	"image/sbom":          {"image", "registry/ref", "registry/tree"},
	"archive":             {"layer"},
	"image":               {"registry/tree", "registry/ref", "registry/platform"},
	"layer":               nil,
	"printable":           nil,
	"certificate":         nil,
	"rootfs":              {"layer"},
	"store":               {"image", "image/inventory", "layer", "rootfs", "registry/tree", "registry/ref", "registry/platform", "registry/sign"},
	"transfer": {
		"archive", "registry/sign", "store", "image", "image/inventory", "imagelist", "registry", "registry/containerd", "registry/mirror", "registry/remote",
		"registry/tree", "registry/ref", "registry/platform",
	},
	"redirect":         {"registry/tree", "registry/ref"},
	"redirect/kyverno": {"redirect", "registry/ref"},
	// Prints the cases of make test-policy; a program.
	"redirect/policytest": {"redirect", "registry/tree", "registry/ref"},
	// Files that tests share; stores for tests.
	"redirect/redirecttest": nil,
	"store/storetest":       {"store"},
	"build/sandbox":         {"rootfs"},
	// Kills sealer and fills disks for make crash; a program.
	"store/crashtest": {"registry/registrytest"},
	// Makes the files of make bench-build; a program.
	"build/benchcontext": nil,
	// The lines that benchmarks write for make bench-all, and the program that gathers them.
	"perf/figure": nil,
	"perf":        {"perf/figure", "registry/registrytest"},
	"build": {
		"kubefile", "parser", "imagelist", "image", "layer", "rootfs", "store", "registry", "registry/chart", "registry/mirror", "registry/remote", "registry/sign",
		"registry/tree", "registry/ref", "registry/platform", "redirect/kyverno", "build/sandbox", "transfer",
	},
	"registry/registrytest": {"registry/ref", "registry/platform", "registry/tree"},
	"cluster/spec":          nil,
	"cluster/render":        {"cluster/spec"},
	"cluster/kubeadm":       {"cluster/spec"},
	"cluster/extend":        {"cluster/spec"},
	"cluster/host":          nil,
	"cluster/host/hosttest": {"cluster/host"},
	"cluster/wire":          nil,
	"cluster/spread":        {"certificate"},
	"cluster/kube":          nil,
	"cluster/cri":           {"grpc"},
	"cluster/proof":         {"cluster/cri", "image", "registry/platform", "registry/ref", "registry/tree"},
	// The programs of test clusters.
	"cluster/clustertest/mkimages":          {"registry/registrytest"},
	"cluster/clustertest/kubeapi":           nil,
	"cluster/clustertest/programs/api":      {"certificate", "cluster/clustertest/kubeapi"},
	"cluster/clustertest/programs/pause":    nil,
	"cluster/clustertest/programs/podnet":   nil,
	"cluster/clustertest/programs/resolver": nil,
	"cluster/clustertest/programs/web":      nil,
	"cluster/session":                       {"cluster/host", "cluster/wire"},
	"cluster/facts":                         {"cluster/plan", "cluster/wire"},
	"cluster/preflight":                     {"cluster/plan", "cluster/spec"},
	"cluster/fleet":                         {"cluster/host", "cluster/spec"},
	// The apply engine.
	"cluster/journal": nil,
	"cluster/plan":    {"cluster/spec", "cluster/journal", "cluster/extend"},
	"cluster/node": {
		"cluster/spec", "cluster/plan", "cluster/journal", "cluster/render", "cluster/kubeadm", "cluster/extend", "cluster/wire", "cluster/kube", "cluster/spread", "cluster/cri",
		"store", "image", "layer", "rootfs", "registry", "registry/ref", "registry/tree", "registry/platform",
	},
	"report": {"image", "image/sbom", "printable", "registry/platform", "registry/tree", "cluster/journal", "cluster/plan", "cluster/proof"},
	"cluster": {
		"cluster/spec", "cluster/host", "cluster/session", "cluster/facts", "cluster/preflight", "cluster/fleet", "cluster/wire", "cluster/plan", "cluster/journal", "cluster/kubeadm", "cluster/render",
		"cluster/extend", "cluster/proof", "cluster/kube", "cluster/node", "cluster/spread",
		"certificate", "store", "image", "rootfs", "registry", "registry/ref", "registry/tree", "registry/platform",
	},
}

// owners says which of our packages alone may import a third-party tree.
var owners = map[string][]string{
	"github.com/moby/buildkit/":                {"parser"},
	"helm.sh/helm/":                            {"imagelist"},
	"github.com/Masterminds/sprig/":            {"cluster/render"},
	"github.com/santhosh-tekuri/jsonschema/":   {"imagelist"},
	"sigs.k8s.io/kustomize/":                   {"imagelist"},
	"github.com/distribution/distribution/v3/": {"registry", "registry/registrytest"},
	"github.com/containers/image/v5/":          {"registry/remote"},
	"github.com/spf13/":                        {"cmd/sealer"},
	"github.com/containers/image/v5/copy":      {},
	"github.com/containers/image/v5/signature": {},
	"helm.sh/helm/v3/pkg/action":               {},
	"filippo.io/age":                           {"archive"},
	"golang.org/x/crypto/ssh":                  {"cluster/host", "cluster/host/hosttest"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportGraph(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		checkImports(t, strings.TrimPrefix(p.ImportPath, module), p.Imports)
	}
}

func checkImports(t *testing.T, name string, imports []string) {
	may, known := allowed[name]
	command := strings.HasPrefix(name, "cmd/sealer") || strings.HasPrefix(name, "registry/registrytest/")
	if !known && !command {
		t.Errorf("package %s is not in the table", name)
	}
	for _, imp := range imports {
		ours, ok := strings.CutPrefix(imp, module)
		if ok && !command && !slices.Contains(may, ours) {
			t.Errorf("package %s imports %s, which the table forbids", name, ours)
		}
		if command && strings.HasPrefix(ours, "registry/registrytest") && strings.HasPrefix(name, "cmd/sealer") {
			t.Errorf("package %s imports %s, which is for tests", name, ours)
		}
		for tree, by := range owners {
			if !strings.HasPrefix(imp, tree) {
				continue
			}
			if !slices.ContainsFunc(by, func(o string) bool { return name == o || o == "cmd/sealer" && command }) {
				t.Errorf("package %s imports %s, which belongs to %v", name, imp, by)
			}
		}
	}
}

// The table of rooms in docs/architecture.md says of each package the same as
// allowed. A package without a row is one of the test rooms below the table.
func TestArchitectureTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "| room | holds | imports of ours |\n| --- | --- | --- |\n")
	table, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("docs/architecture.md has no table of rooms")
	}
	line, _, _ := strings.Cut(after, "\n\n")
	tests := quoted(line)
	inTests := func(name string) bool {
		return slices.ContainsFunc(tests, func(room string) bool { return name == room || strings.HasPrefix(name, room+"/") })
	}
	var above []string
	seen := map[string]bool{}
	for row := range strings.Lines(table + "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("row with %d cells: %s", len(cells), row)
		}
		var rooms []string
		for _, room := range quoted(cells[0]) {
			rooms = append(rooms, packagesOf(room)...)
		}
		rooms = slices.DeleteFunc(rooms, inTests)
		if len(rooms) == 0 && !strings.HasPrefix(strings.TrimSpace(cells[0]), "`cmd/sealer`") {
			t.Errorf("no package of this row is in allowed: %s", row)
		}
		var imports []string
		for _, room := range rooms {
			seen[room] = true
			imports = append(imports, allowed[room]...)
		}
		checkRow(t, strings.TrimSpace(row), cells[2], rooms, imports, above)
		above = append(above, rooms...)
	}
	for name := range allowed {
		if !seen[name] && !inTests(name) {
			t.Errorf("docs/architecture.md has no row for %s", name)
		}
	}
}

// checkRow compares the imports of the packages rooms with the last cell of
// their row. Packages of one row may import one another.
func checkRow(t *testing.T, row, cell string, rooms, imports, above []string) {
	t.Helper()
	if strings.Contains(cell, "all above") {
		but := quoted(cell)
		for _, name := range imports {
			if slices.Contains(but, name) || !slices.Contains(above, name) && !slices.Contains(rooms, name) {
				t.Errorf("%s is not above: %s", name, row)
			}
		}
		return
	}
	var want []string
	for _, name := range quoted(cell) {
		want = append(want, packagesOf(name)...)
	}
	for _, name := range imports {
		if !slices.Contains(want, name) && !slices.Contains(rooms, name) {
			t.Errorf("%s is allowed and not in the row: %s", name, row)
		}
	}
	for _, name := range want {
		if !slices.Contains(imports, name) {
			t.Errorf("%s is in the row and not allowed: %s", name, row)
		}
	}
}

// quoted returns the words in backquotes, "a/{b,c}" as a/b and a/c.
func quoted(s string) []string {
	var out []string
	for i, word := range strings.Split(s, "`") {
		if i%2 == 0 {
			continue
		}
		prefix, list, braces := strings.Cut(strings.TrimSuffix(word, "}"), "{")
		if !braces {
			out = append(out, word)
			continue
		}
		for _, name := range strings.Split(list, ",") {
			out = append(out, prefix+name)
		}
	}
	return out
}

// packagesOf returns the packages in allowed that room names: itself, or all
// below a name that ends in /...
func packagesOf(room string) []string {
	prefix, all := strings.CutSuffix(room, "/...")
	var out []string
	for name := range allowed {
		if name == room || all && (name == prefix || strings.HasPrefix(name, prefix+"/")) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
