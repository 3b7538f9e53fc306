package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"Grüße, 世界 👩\u200d💻 \u00a0", "Grüße, 世界 👩\u200d💻 \u00a0"},
		{"\x1b]0;title\x07", `\u001b]0;title\u0007`},
		{"a\rb\x00\x7f", `a\u000db\u0000\u007f`},
		{"\u009b31m", `\u009b31m`},
		{"\x9b31m", `\x9b31m`}, // C1 as a byte of its own
		{"\u202etxt.exe\u2066", `\u202etxt.exe\u2066`},
		{"a\u2028b\u200b\ufeff", `a\u2028b\u200b\ufeff`},
		{"\U000e0041", `\udb40\udc41`},
		{"bad \xff\xc3(\xe2\x82", `bad \xff\xc3(\xe2\x82`},
		{"\ufffd", "\ufffd"},
	} {
		for step := 1; step <= len(tc.in); step++ { // characters come in pieces
			var out bytes.Buffer
			p := &printable{w: &out}
			for chunk := range slices.Chunk([]byte(tc.in), step) {
				if n, err := p.Write(chunk); n != len(chunk) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want {
				t.Errorf("%q in steps of %d: got %q, want %q", tc.in, step, out.String(), tc.want)
			}
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestPrintableKeepsTheError(t *testing.T) {
	t.Parallel()
	p := &printable{w: brokenWriter{}}
	_, _ = p.Write([]byte("lost"))
	if err := p.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close returns %v", err)
	}
}

// allUnprintable has each unprintable character, and those beside them.
func allUnprintable() string {
	var b strings.Builder
	for r := rune(0); r <= 0xe0100; r++ {
		if (unicode.IsControl(r) || isUnprintable(r)) && utf8.ValidRune(r) {
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
			p := &printable{w: &out}
			if err := (&output{kind: kind}).print(p, want, nil); err != nil {
				t.Fatal(err)
			}
			for _, r := range out.String() {
				if isUnprintable(r) {
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
	rawUsers := []string{"root.go", "save.go", "export.go", "inventory.go", "node.go", "progress.go"} // archives, a protocol, the bar
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
					t.Errorf("%s: the raw streams are for archives: write to Out and Err", set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}
