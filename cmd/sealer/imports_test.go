package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/clusterimage/sealer/"

// allowed is the last column of the table in section 2 of the design: what a
// package may import of ours. A name that ends in /... stands for all below.
var allowed = map[string][]string{
	"kubefile":          nil,
	"registry/ref":      nil,
	"registry/platform": nil,
	"registry/tree":     {"registry/ref"},
	"parser":            {"kubefile"},
	"imagelist":         {"registry/ref", "registry/platform"},
	"registry/remote":   {"registry/ref", "registry/platform"},
	"registry/mirror":   {"registry/remote", "registry/tree", "registry/ref", "registry/platform"},
	"registry":          {"registry/tree", "registry/ref", "registry/platform"},
	"store":             {"registry/tree", "registry/ref", "registry/platform", "store/sha256pair"},
	"store/sha256pair":  nil,
	"build/kyverno":     {"registry/tree", "registry/ref", "registry/platform"},
	// What make test-policy checks; a program.
	"build/kyverno/policytest": {"build/kyverno", "registry/tree", "registry/ref"},
	// Makes the files of make bench-build; a program.
	"build/benchcontext": nil,
	"build": {
		"kubefile", "parser", "imagelist", "store", "registry", "registry/mirror", "registry/remote",
		"registry/tree", "registry/ref", "registry/platform", "build/kyverno",
	},
	"registry/registrytest": {"registry/ref", "registry/platform", "registry/tree"},
}

// owners says which of our packages alone may import a third-party tree.
var owners = map[string][]string{
	"github.com/moby/buildkit/":                {"parser"},
	"helm.sh/helm/":                            {"imagelist"},
	"github.com/distribution/distribution/v3/": {"registry", "registry/registrytest"},
	"github.com/containers/image/v5/":          {"registry/remote"},
	"github.com/spf13/":                        {"cmd/sealer"},
	"github.com/containers/image/v5/copy":      {},
	"github.com/containers/image/v5/signature": {},
	"helm.sh/helm/v3/pkg/action":               {},
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
