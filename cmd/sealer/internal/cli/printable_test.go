package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/printable"
)

// allUnprintable has each unprintable character, and those beside them.
func allUnprintable() string {
	var b strings.Builder
	for r := rune(0); r <= 0xe0100; r++ {
		if (unicode.IsControl(r) || printable.Escapes(r)) && utf8.ValidRune(r) {
			b.WriteRune(r)
			b.WriteString("x")
		}
	}
	return b.String()
}

// TestDocumentsKeepData: JSON and YAML give back the data, and have none of the
// characters as they are.
func TestDocumentsKeepData(t *testing.T) {
	t.Parallel()
	for _, s := range []string{allUnprintable(), "\x01\u202e", "\u202e: #", "\\x01\u202e", "\\\u202e"} {
		want := map[string]string{"k" + s: s + "\ttab\nline"}
		for _, kind := range []string{"json", "yaml"} {
			var out bytes.Buffer
			p := printable.NewWriter(&out)
			if err := (&output{kind: kind}).print(p, want, nil); err != nil {
				t.Fatal(err)
			}
			for _, r := range out.String() {
				if printable.Escapes(r) {
					t.Errorf("%s: U+%04X is printed as it is", kind, r)
				}
			}
			var got map[string]string
			var err error
			if kind == "json" {
				err = json.Unmarshal(out.Bytes(), &got)
			} else {
				err = yaml.Unmarshal(out.Bytes(), &got)
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", kind, err, diff)
			}
		}
	}
}

func TestLinesOfArguments(t *testing.T) {
	t.Parallel()
	type kind string
	var out bytes.Buffer
	printf(&out, "%s %v %s %d\n", "a\nb", errors.New("c\td"), kind("e\nf"), 3)
	printLine(&out, "g\nh", 4)
	if err := table(&out, []string{"A", "B"}, [][]string{{"i\nj", "k\tl"}}); err != nil {
		t.Fatal(err)
	}
	printText(&out, oneLine("10 %\r20 %\r\n"))
	want := "a\\nb c\\td e\\nf 3\ng\\nh 4\nA      B\ni\\nj   k\\tl\n20 %\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestOnePrinter keeps a new command from writing past the printer: no file
// names the process's own streams, prints by package fmt, or uses the raw
// streams, but for those listed here.
func TestOnePrinter(t *testing.T) {
	t.Parallel()
	rawUsers := []string{"root.go", "save.go", "export.go", "inventory.go", "node.go", "progress.go", "mount.go"} // archives, a protocol, the bar, a command of the user
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 40 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "printable.go" {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") && id.Obj == nil {
					t.Errorf("%s: %s writes past the printer", set.Position(n.Pos()), id.Name)
				}
			case *ast.SelectorExpr:
				of, _ := n.X.(*ast.Ident)
				switch {
				case of != nil && of.Name == "os" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr"),
					of != nil && of.Name == "fmt" && (strings.HasPrefix(n.Sel.Name, "Fprint") || strings.HasPrefix(n.Sel.Name, "Print")):
					t.Errorf("%s: %s.%s writes past the printer: use printf, printLine, printText or table", set.Position(n.Pos()), of.Name, n.Sel.Name)
				case n.Sel.Name == "raw" && !slices.Contains(rawUsers, name):
					t.Errorf("%s: the raw streams are for archives and commands: write to Out and Err", set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}
