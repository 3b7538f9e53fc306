package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed support/support.go
var support string

// Operator is a mutation of an operator: its name, the operator that stands in
// its place, and the function of support.go that chooses between the two. A
// negation has no function: the result is compared with mutant_choose.
type operator struct{ name, to, function string }

var binary = map[token.Token][]operator{
	token.LSS: {{"CONDITIONALS_BOUNDARY", "<=", "less"}, {"CONDITIONALS_NEGATION", ">=", ""}},
	token.LEQ: {{"CONDITIONALS_BOUNDARY", "<", "lessEqual"}, {"CONDITIONALS_NEGATION", ">", ""}},
	token.GTR: {{"CONDITIONALS_BOUNDARY", ">=", "greater"}, {"CONDITIONALS_NEGATION", "<=", ""}},
	token.GEQ: {{"CONDITIONALS_BOUNDARY", ">", "greaterEqual"}, {"CONDITIONALS_NEGATION", "<", ""}},
	token.EQL: {{"CONDITIONALS_NEGATION", "!=", ""}},
	token.NEQ: {{"CONDITIONALS_NEGATION", "==", ""}},
	token.ADD: {{"ARITHMETIC_BASE", "-", "add"}},
	token.SUB: {{"ARITHMETIC_BASE", "+", "subtract"}},
	token.MUL: {{"ARITHMETIC_BASE", "/", "multiply"}},
	token.QUO: {{"ARITHMETIC_BASE", "*", "divide"}},
	token.REM: {{"ARITHMETIC_BASE", "*", "remainder"}},
}

// Mutant is one change: line is the source line as the mutant has it.
type mutant struct {
	id, number          int
	file, mutator, line string
}

func (m mutant) place() string { return fmt.Sprintf("%s:%d", m.file, m.number) }

// Loaded is a package with its types.
type loaded struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string

	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	types *types.Package
}

func load(dir string) (*loaded, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export,GoFiles", "./"+dir)
	list.Stderr = os.Stderr
	b, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var p loaded
	for d := json.NewDecoder(bytes.NewReader(b)); ; { // the package itself is the last
		var next loaded
		if err := d.Decode(&next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		p, exports[next.ImportPath] = next, next.Export
	}
	p.fset, p.info = token.NewFileSet(), &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	imports := importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	p.types, err = (&types.Config{Importer: imports}).Check(p.ImportPath, p.fset, p.files, p.info)
	return &p, err
}

var refused = regexp.MustCompile(`(?m)^(?:\./)?(\S+\.go:\d+):\d+: .*`)

// compile writes the tests of the package, with all its mutants, to the file
// program. Lines with a mutant that the compiler refuses are left out, and said.
func compile(dir, work, program string) ([]mutant, error) {
	p, err := load(dir)
	if err != nil {
		return nil, err
	}
	skip := map[string]bool{}
	for {
		var mutants []mutant
		overlay := map[string]string{}
		replace := func(name, text string) error {
			overlay[filepath.Join(p.Dir, name)] = filepath.Join(work, name)
			return os.WriteFile(filepath.Join(work, name), []byte(text), 0o666)
		}
		for i, f := range p.files {
			s := &source{loaded: p, file: f, name: filepath.Join(dir, p.GoFiles[i]), first: len(mutants) + 1, skip: skip}
			if s.text, err = os.ReadFile(filepath.Join(p.Dir, p.GoFiles[i])); err != nil {
				return nil, err
			}
			if err := replace(p.GoFiles[i], s.mutate()); err != nil {
				return nil, err
			}
			mutants = append(mutants, s.mutants...)
		}
		if err := replace("mutant_support.go", strings.Replace(support, "\npackage support\n", "\npackage "+p.Name+"\n", 1)); err != nil {
			return nil, err
		}
		b, err := json.Marshal(map[string]any{"Replace": overlay})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(work, "overlay.json"), b, 0o666); err != nil {
			return nil, err
		}
		build := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", filepath.Join(work, "overlay.json"), "-o", program, "./"+dir)
		out, err := build.CombinedOutput()
		if err == nil {
			return mutants, nil
		}
		before := len(skip)
		for _, m := range refused.FindAllStringSubmatch(string(out), -1) {
			if !skip[m[1]] {
				fmt.Printf("left out, the compiler refuses a mutant of the line: %s\n", m[0])
			}
			skip[m[1]] = true
		}
		if len(skip) == before {
			return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
		}
	}
}

// Source is a file that is being mutated.
type source struct {
	*loaded
	file    *ast.File
	name    string // below the project's folder
	text    []byte
	first   int             // the id of the first mutant
	skip    map[string]bool // lines without mutants, FILE:LINE
	edits   []edit
	mutants []mutant
}

// Edit replaces length bytes at offset. Order sorts the edits of one offset:
// ends of expressions below 0, the innermost first; operators 0; beginnings 1,
// the outermost first.
type edit struct {
	offset, length, order int
	text                  string
}

// mutate returns the text with all mutants in it and lists them in s.mutants.
func (s *source) mutate() string {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if n != nil && s.skip[fmt.Sprintf("%s:%d", s.name, s.fset.Position(n.Pos()).Line)] {
			return true
		}
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST
		case *ast.ArrayType:
			return n.Len == nil
		case *ast.BinaryExpr:
			s.binary(n)
		case *ast.UnaryExpr:
			if kind, written := s.typeOf(n); n.Op == token.SUB && written {
				id := s.add("INVERT_NEGATIVES", n.OpPos, "-", "+")
				s.edit(n.OpPos, 1, 1, fmt.Sprintf("mutant_negative%s(%d, ", kind, id))
				s.edit(n.End(), 0, -len(s.edits), ")")
			}
		case *ast.IncDecStmt:
			to := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			x := s.text[s.offset(n.X.Pos()):s.offset(n.X.End())]
			id := s.add("INCREMENT_DECREMENT", n.TokPos, n.Tok.String(), to)
			s.edit(n.TokPos, 2, 0, fmt.Sprintf("%s= mutant_one(%d, %s)", n.Tok.String()[:1], id, x))
		}
		return true
	})
	slices.SortStableFunc(s.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.order, b.order))
	})
	var out strings.Builder
	at := 0
	for _, e := range s.edits {
		out.Write(s.text[at:e.offset])
		out.WriteString(e.text)
		at = e.offset + e.length
	}
	out.Write(s.text[at:])
	return out.String()
}

func (s *source) binary(n *ast.BinaryExpr) {
	for _, o := range slices.Backward(binary[n.Op]) {
		if o.function == "" {
			id := s.add(o.name, n.OpPos, n.Op.String(), o.to)
			s.edit(n.Pos(), 0, 1, "((")
			s.edit(n.End(), 0, -len(s.edits), fmt.Sprintf(") != mutant_choose(%d))", id))
			continue
		}
		kind, written := s.typeOf(n.X)
		if strings.HasPrefix(o.name, "ARITHMETIC") {
			kind, written = s.typeOf(n)
		} else if s.info.Types[n].Value == nil {
			kind, written = "", true // the operands tell it
		}
		if !written {
			continue
		}
		id := s.add(o.name, n.OpPos, n.Op.String(), o.to)
		s.edit(n.Pos(), 0, 1, fmt.Sprintf("mutant_%s%s(%d, ", o.function, kind, id))
		s.edit(n.OpPos, len(n.Op.String()), 0, ",")
		s.edit(n.End(), 0, -len(s.edits), ")")
	}
}

// typeOf returns the type argument for a constant number, "" where the
// compiler finds it; false when the expression has no mutant: a string, or a
// type that the file does not name.
func (s *source) typeOf(e ast.Expr) (string, bool) {
	t := s.info.Types[e]
	if b, ok := t.Type.Underlying().(*types.Basic); ok && b.Info()&types.IsNumeric == 0 {
		return "", false
	}
	if t.Value == nil {
		return "", true
	}
	ok := true
	name := types.TypeString(types.Default(t.Type), func(p *types.Package) string {
		if p == s.types {
			return ""
		}
		for _, i := range s.file.Imports {
			if strings.Trim(i.Path.Value, `"`) == p.Path() {
				if i.Name != nil {
					return i.Name.Name
				}
				return p.Name()
			}
		}
		ok = false
		return ""
	})
	return "[" + name + "]", ok
}

// add lists a mutant of the operator at pos and returns its id.
func (s *source) add(mutator string, pos token.Pos, from, to string) int {
	p := s.fset.Position(pos)
	number, at := p.Line, p.Column-1
	line := strings.Split(string(s.text), "\n")[number-1]
	m := mutant{id: s.first + len(s.mutants), number: number, file: s.name, mutator: mutator}
	m.line = strings.TrimSpace(line[:at] + to + line[at+len(from):])
	s.mutants = append(s.mutants, m)
	return m.id
}

func (s *source) edit(pos token.Pos, length, order int, text string) {
	s.edits = append(s.edits, edit{s.offset(pos), length, order, text})
}

func (s *source) offset(pos token.Pos) int { return s.fset.Position(pos).Offset }
