// Measure prints the table of docs/architecture.md: the size of each room, its
// functions, its documented names, its tests. Run it at the root of the
// repository:
//
//	go run .ci/measure.go
//
// Lines are lines of Go files. Functions are those with a name. A name counts
// as documented when it, or the group that declares it, has a comment; methods of unexported types do not count. Scripts
// (.txtar) count as tests of cmd/sealer.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"slices"
	"strings"
)

type room struct {
	files, lines, tests  int
	functions            []int // lines of each
	exported, documented int
}

func main() {
	out, err := exec.Command("git", "ls-files", "*.go", "*.txtar").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
	rooms := map[string]*room{"all": {}}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if strings.HasPrefix(file, ".ci/") {
			continue
		}
		name := roomOf(file)
		if rooms[name] == nil {
			rooms[name] = &room{}
		}
		for _, r := range []*room{rooms[name], rooms["all"]} {
			if err := r.add(file); err != nil {
				fmt.Fprintln(os.Stderr, "measure:", err)
				os.Exit(1)
			}
		}
	}
	fmt.Println("| room | files | lines | function lines: median, p90, max | exported names documented | test lines to code lines |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	var names []string
	for name := range rooms {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return rooms[b].lines - rooms[a].lines })
	for _, name := range names {
		r := rooms[name]
		if r.files == 0 {
			continue
		}
		slices.Sort(r.functions)
		fmt.Printf("| %s | %d | %d | %d, %d, %d | %d of %d | %.2f |\n", name, r.files, r.lines,
			r.quantile(50), r.quantile(90), r.quantile(100), r.documented, r.exported, float64(r.tests)/float64(r.lines))
	}
}

// roomOf returns the first directory of a file, for registry, cluster and
// redirect the first two.
func roomOf(file string) string {
	parts := strings.Split(file, "/")
	n := 1
	if (parts[0] == "registry" || parts[0] == "redirect") && len(parts) > 2 {
		n = 2
	}
	return strings.Join(parts[:min(n, len(parts)-1)], "/")
}

func (r *room) quantile(percent int) int {
	if len(r.functions) == 0 {
		return 0
	}
	return r.functions[(len(r.functions)-1)*percent/100]
}

func (r *room) add(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Count(string(b), "\n")
	if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".txtar") {
		r.tests += lines
		return nil
	}
	r.files++
	r.lines += lines
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, b, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.functions = append(r.functions, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
			if d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() {
				r.name(d.Name, d.Doc != nil)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					r.name(s.Name, d.Doc != nil || s.Doc != nil)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						r.name(n, d.Doc != nil || s.Doc != nil || s.Comment != nil)
					}
				}
			}
		}
	}
	return nil
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e
	}
	return &ast.Ident{}
}

func (r *room) name(n *ast.Ident, documented bool) {
	if !n.IsExported() {
		return
	}
	r.exported++
	if documented {
		r.documented++
	}
}
