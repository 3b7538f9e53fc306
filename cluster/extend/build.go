package extend

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// standin are the packages that old plugins import, as far as they use them.
// They let a plugin compile without a network and without sealer's old source.
//
//go:embed all:_standin
var standin embed.FS

// BuildOptions name the source, the program and the platform of a Build.
type BuildOptions struct {
	File string // Go source: package main with the variable Plugin, and PluginType
	Out  string // the program to write
	Arch string // GOARCH; "" is this machine's
	Go   string // the go command; "" is looked up in PATH
}

// maxSource is the largest source file, in bytes.
const maxSource = 4 << 20

// Build compiles a plugin that was written for sealer 0.8 to a program of the
// exec protocol: the source stays as it is. The go command is needed, a network
// is not. Faults of the source name its lines.
func Build(ctx context.Context, o BuildOptions) (err error) {
	goCmd := o.Go
	if goCmd == "" {
		if goCmd, err = exec.LookPath("go"); err != nil {
			return fmt.Errorf("build %s: there is no go command in PATH: install Go 1.21 or later from go.dev/dl", o.File)
		}
	}
	source, err := readSource(o.File)
	if err != nil {
		return err
	}
	src, err := readPlugin(o.File, source)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sealer-plugin-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := src.write(dir, source); err != nil {
		return fmt.Errorf("build %s: %w", o.File, err)
	}
	program := filepath.Join(dir, "program.out")
	cmd := exec.CommandContext(ctx, goCmd, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = dir
	arch := o.Arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return compileError(o.File, out, err)
	}
	return install(program, o.Out)
}

func readSource(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSource {
		return nil, fmt.Errorf("build %s: is no Go file, or larger than %d bytes", name, maxSource)
	}
	return os.ReadFile(name)
}

// compileError shows the compiler's words with the user's file name.
func compileError(file string, out []byte, err error) error {
	var lines []string
	for l := range strings.Lines(string(out)) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			lines = append(lines, strings.ReplaceAll(l, "./plugin.go", file))
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("build %s: %w", file, err)
	}
	return fmt.Errorf("build %s: %s", file, strings.Join(lines, "\n"))
}

// install puts the program at its place, whole or not at all.
func install(program, out string) (err error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(out), ".sealer-plugin-")
	if err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", out, err)
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), out)
}

// A source is the facts about a plugin's file that Build needs.
type source struct {
	root    string            // the module that it was written for
	where   map[string]string // stand-in: the directory below root that the file imports it from
	hasType bool              // it has the variable PluginType
}

// roots are the modules whose packages plugins import.
func roots() []string { return []string{"github.com/alibaba/sealer", "github.com/sealerio/sealer"} }

// others are the stand-ins of other modules.
func others() map[string]string {
	return map[string]string{
		"k8s.io/api": "k8sapi", "k8s.io/apimachinery": "apimachinery", "github.com/sirupsen/logrus": "logrus",
	}
}

// readPlugin reads the parts that make a file a plugin. All faults are joined.
func readPlugin(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	s := &source{root: roots()[0], where: map[string]string{"plugin": "plugin", "client/k8s": "client/k8s"}}
	var errs []error
	fault := func(at token.Pos, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", fset.Position(at), fmt.Sprintf(format, args...)))
	}
	if file.Name.Name != "main" {
		fault(file.Name.Pos(), "package %s: a plugin is package main", file.Name.Name)
	}
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if err := s.use(p); err != nil {
			fault(i.Pos(), "%v", err)
		}
	}
	vars := map[string]bool{}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "main" {
				fault(d.Pos(), "a plugin has no func main: sealer adds it")
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, n := range v.Names {
						vars[n.Name] = true
					}
				}
			}
		}
	}
	if !vars["Plugin"] {
		errs = append(errs, fmt.Errorf("%s: there is no variable Plugin: write var Plugin YOURTYPE", name))
	}
	s.hasType = vars["PluginType"]
	return s, errors.Join(errs...)
}

// use notes an import, or says that it cannot be had.
func (s *source) use(p string) error {
	for _, root := range roots() {
		rest, ok := strings.CutPrefix(p, root+"/")
		if !ok {
			continue
		}
		s.root = root
		rest = strings.TrimPrefix(rest, "pkg/")
		switch rest {
		case "plugin", "client/k8s":
			s.where[rest] = strings.TrimPrefix(p, root+"/")
			return nil
		case "types/api/v1", "types/api/v2", "logger":
			return nil
		}
		return fmt.Errorf("import %q: sealer gives plugins plugin, client/k8s, types/api/v1, types/api/v2 and logger, not this package", p)
	}
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		return nil // of Go's own library
	}
	if slices.Contains([]string{"k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "github.com/sirupsen/logrus"}, p) {
		return nil
	}
	return fmt.Errorf("import %q: a plugin is built without a network: use Go's own library, or write a program of the exec protocol yourself (docs/plugins.md)", p)
}

// write lays out a module: the file, a main, and the stand-ins.
func (s *source) write(dir string, text []byte) error {
	mod := "module sealer.invalid/plugin\n\ngo 1.21\n\nrequire " + s.root + " v0.0.0\nreplace " + s.root + " => ./standin/sealer\n"
	for _, m := range slices.Sorted(maps.Keys(others())) {
		mod += "require " + m + " v0.0.0\nreplace " + m + " => ./standin/" + others()[m] + "\n"
		if err := put(dir, path.Join("standin", others()[m], "go.mod"), "module "+m+"\n\ngo 1.21\n"); err != nil {
			return err
		}
	}
	kind := `"GOLANG"`
	if s.hasType {
		kind = "PluginType"
	}
	files := map[string]string{
		"go.mod": mod, "plugin.go": string(text), "standin/sealer/go.mod": "module " + s.root + "\n\ngo 1.21\n",
		"type.go": "package main\n\nvar sealerPluginType = " + kind + "\n",
	}
	for name, content := range files {
		if err := put(dir, name, content); err != nil {
			return err
		}
	}
	return fs.WalkDir(standin, "_standin", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := standin.ReadFile(p)
		if err != nil {
			return err
		}
		return put(dir, s.place(strings.TrimPrefix(p, "_standin/")), s.rewrite(string(content)))
	})
}

// place says where a file of the stand-ins lies in the module.
func (s *source) place(p string) string {
	if p == "serve/main.go" {
		return "main.go"
	}
	for name, at := range s.where {
		if rest, ok := strings.CutPrefix(p, "sealer/"+name+"/"); ok {
			return path.Join("standin/sealer", at, rest)
		}
	}
	return path.Join("standin", p)
}

// rewrite lets the stand-ins import each other where the plugin does.
func (s *source) rewrite(text string) string {
	for name, at := range s.where {
		text = strings.ReplaceAll(text, `"`+roots()[0]+"/"+name+`"`, `"`+s.root+"/"+at+`"`)
	}
	return strings.ReplaceAll(text, `"`+roots()[0]+"/", `"`+s.root+"/")
}

func put(dir, name, content string) error {
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(content), 0o644)
}
