package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureWalks holds the walks of docs/architecture.md against the code:
// each name is a function, method, type or field of its package, which is the one
// written before it, or the one of the name before.
func TestArchitectureWalks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## Four walks\n")
	section, _, ended := strings.Cut(rest, "\n## ")
	_, walks, rule := strings.Cut(section, "belongs to the package before it.\n")
	if !found || !ended || !rule {
		t.Fatal("docs/architecture.md has no walks")
	}
	rooms := map[string][]string{} // by the last element: the folders
	for _, room := range slices.Sorted(maps.Keys(allowed)) {
		rooms[path.Base(room)] = append(rooms[path.Base(room)], room)
	}
	read := map[string]map[string]bool{}
	has := func(pkg, name string) bool {
		return slices.ContainsFunc(rooms[pkg], func(room string) bool {
			if read[room] == nil {
				read[room] = declared(t, room)
			}
			return read[room][name]
		})
	}
	names := 0
	for walk := range strings.SplitSeq(walks, "\n**") {
		pkg := ""
		for _, name := range quotedName.FindAllStringSubmatch(walk, -1) {
			if first, after, ok := strings.Cut(name[1], "."); ok && rooms[first] != nil && !has(pkg, name[1]) {
				pkg, name[1] = first, after
			}
			if names++; !has(pkg, name[1]) {
				t.Errorf("docs/architecture.md: a walk has %s, and package %s has no such name", name[1], pkg)
			}
		}
	}
	if names < 100 {
		t.Errorf("the walks have %d names", names)
	}
}

// quotedName matches a name, and no command or field of YAML between backquotes.
var quotedName = regexp.MustCompile("`([A-Za-z]+(?:\\.[A-Za-z]+)*)`")

// declared returns the names that the package in a folder declares: functions,
// methods with and without their type, types, and fields with theirs.
func declared(t *testing.T, room string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	dir := filepath.Join("../..", room)
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				out[d.Name.Name] = true
				if d.Recv != nil {
					out[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						declareType(out, spec)
					}
				}
			}
		}
	}
	return out
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func declareType(out map[string]bool, spec *ast.TypeSpec) {
	out[spec.Name.Name] = true
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			out[spec.Name.Name+"."+name.Name] = true
		}
	}
}
