package render

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

func TestNewEnv(t *testing.T) {
	t.Parallel()
	env := NewEnv([]string{"A=1", "SAN=a", "SAN=b", "L=x;y", "E=", "U=a=b", "bad"})
	want := Env{"A": "1", "SAN": []string{"a", "b"}, "L": []string{"x", "y"}, "E": "", "U": "a=b"}
	if d := cmp.Diff(want, env); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"A=1", "E=", "L=x y", "SAN=a b", "U=a=b"}, env.Lines()); d != "" {
		t.Error(d)
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	env := NewEnv([]string{"Name=web", "SAN=a;b", "Empty="})
	for _, c := range []struct{ name, text, want, fault string }{
		{"value", "name: {{ .Name }}\n", "name: web\n", ""},
		{"list", "{{ range .SAN }}- {{ . }}\n{{ end }}", "- a\n- b\n", ""},
		{"functions", `{{ .Name | upper | quote }} {{ join "," .SAN }} {{ .SAN | len }}`, `"WEB" a,b 2`, ""},
		{"not html", "{{ .Name }} < & '", "web < & '", ""},
		{"empty is a value", "[{{ .Empty }}]", "[]", ""},
		{"default", `{{ .No | default "x" }} {{ default "y" .No }}`, "x y", ""},
		{"condition", "{{ if .No }}{{ .No }}{{ else }}none{{ end }}{{ with .No }}{{ . }}{{ end }}", "none", ""},
		{"missing", "a\n{{ .No }}\n", "", "f.tmpl:2: no value for .No: write No=VALUE in env"},
		{"missing in function", "{{ .No | quote }}", "", "f.tmpl:1: no value for .No"},
		{"missing argument", `{{ join "," (list .No) }}`, "", "f.tmpl:1: no value for .No"},
		{"missing in variable", "{{ $x := .No }}\n{{ $x }}", "", "f.tmpl:1: no value for .No"},
		{"missing in define", "{{ define \"x\" }}\n{{ .No }}{{ end }}{{ template \"x\" . }}", "", "f.tmpl:2: no value for .No"},
		{"all missing", "{{ .A }}\n{{ .B }}", "", "f.tmpl:1: no value for .A: write A=VALUE in env of the Clusterfile, or pass -e A=VALUE\nf.tmpl:2: no value for .B"},
		{"syntax", "x\n{{ if }}", "", "f.tmpl:2: missing value for if"},
		{"no environment", `{{ env "HOME" }}`, "", `f.tmpl:1: function "env" not defined`},
		{"no chance", `{{ randAlpha 5 }}`, "", `function "randAlpha" not defined`},
		{"too large", `{{ range until 100 }}{{ repeat 1000000 "x" }}{{ end }}`, "", "renders to more than"},
		{"too long a list", `{{ until 1000000000 | len }}`, "", "until 1000000000: more than 100000"},
		{"too long a text", `{{ repeat 1000000000 "xx" | len }}`, "", "repeat 1000000000: makes more than"},
		{"loop", `{{ range until 3 }}{{ repeat 2 "a" }}{{ . }}{{ end }}`, "aa0aa1aa2", ""},
		{"fail", `{{ fail "bad value" }}`, "", "f.tmpl:1: <fail \"bad value\">: error calling fail: bad value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Template("f.tmpl", []byte(c.text), env)
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fault) && !strings.Contains(err.Error(), c.fault)) {
				t.Fatalf("got %v, want %s", err, c.fault)
			}
			if string(got) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	var missing *MissingError
	if _, err := Template("f", []byte("{{ .No }}"), nil); !errors.As(err, &missing) || missing.Key != "No" {
		t.Error(err)
	}
}

// rootOf makes a rootfs of files.
func rootOf(t *testing.T, files map[string]string) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"etc/a.yml.tmpl": "a: {{ .A }}", "etc/a.yml": "old", "scripts/s/x.sh.tmpl": "echo {{ .A }}",
		"charts/c/templates/x.yaml": "{{ .Values.x }}", "application/apps/x/alert.tmpl": "{{ .Labels }}",
	}
	root, dir := rootOf(t, files)
	got, err := Templates(root, Env{"A": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"etc/a.yml", "scripts/s/x.sh"}, got); d != "" {
		t.Error(d)
	}
	files["etc/a.yml"], files["scripts/s/x.sh"] = "a: 1", "echo 1"
	if d := cmp.Diff(files, content(t, dir)); d != "" {
		t.Error(d)
	}
	if info, _ := os.Stat(filepath.Join(dir, "scripts/s/x.sh")); info.Mode().Perm() != 0o755 {
		t.Errorf("mode %s", info.Mode())
	}
}

func TestTemplatesWriteNothingOnAFault(t *testing.T) {
	t.Parallel()
	root, dir := rootOf(t, map[string]string{"etc/a.tmpl": "{{ .A }}", "etc/b.tmpl": "{{ .B }}", "etc/c.tmpl": "{{ .C }}"})
	_, err := Templates(root, Env{"A": "1"})
	if err == nil || !strings.Contains(err.Error(), "etc/b.tmpl:1") || !strings.Contains(err.Error(), "etc/c.tmpl:1") {
		t.Error(err)
	}
	if c := content(t, dir); len(c) != 3 {
		t.Errorf("written: %v", c)
	}
}

func TestLinksStayInside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	root, dir := rootOf(t, map[string]string{"etc/x": ""})
	if err := os.Symlink(outside, filepath.Join(dir, "etc/out")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"etc/out/f", "../f", "/f"} {
		if _, err := Configs(root, []spec.Config{{Name: "a", Path: p, Data: "x"}}); err == nil {
			t.Errorf("%s was written", p)
		}
	}
	if c := content(t, outside); len(c) != 0 {
		t.Errorf("written outside: %v", c)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	const old = "# kept\na: 1\nb:\n  c: 2 # two\n  d: 3\n"
	for _, c := range []struct {
		name      string
		c         spec.Config
		old, want string
		fault     string
	}{
		{"overwrite", spec.Config{Data: "x"}, old, "x", ""},
		{"merge", spec.Config{Strategy: "merge", Data: "b: {c: 9}\ne: [1]\n"}, old, "# kept\na: 1\nb:\n    c: 9\n    d: 3\ne: [1]\n", ""},
		{"merge key that is a value", spec.Config{Strategy: "merge", Data: "x: 9"}, "a: x\n", "a: x\nx: 9\n", ""},
		{"merge into nothing", spec.Config{Strategy: "merge", Data: "x: 9"}, "", "x: 9", ""},
		{"merge into two", spec.Config{Strategy: "merge", Data: "x: 9"}, "a: 1\n---\nb: 2\n", "", "the file is not one YAML mapping"},
		{"merge no mapping", spec.Config{Strategy: "merge", Data: "[1]"}, old, "", "the data is not one YAML mapping"},
		{"merge aliases", spec.Config{Strategy: "merge", Data: "a: 2"}, "x: &x {a: 1}\ny: *x\n", "", "line 2: has an alias"},
		{"json", spec.Config{Process: "toJson", Data: "a: [1, x]"}, "", `{"a":[1,"x"]}`, ""},
		{"base64", spec.Config{Process: "toBase64", Data: "ab"}, "", "YWI=", ""},
		{"json then base64", spec.Config{Process: "toJson|toBase64", Data: "a: 1"}, "", "eyJhIjoxfQ==", ""},
		{"values base64", spec.Config{Process: "value|toBase64", Data: "a: ab\nb: 1\n"}, "", "a: YWI=\nb: MQ==\n", ""},
		{"values json", spec.Config{Process: "value|toJson", Data: "a:\n  b: 1\n"}, "", "a: '{\"b\":1}'\n", ""},
		{"secret", spec.Config{Name: "db", Process: "toSecret", Data: "pw: ab\n"}, "",
			"apiVersion: v1\ndata:\n    pw: YWI=\nkind: Secret\nmetadata:\n    name: db\ntype: Opaque\n", ""},
		{"secret merged", spec.Config{Name: "db", Process: "value|toBase64|toSecret", Data: "pw: ab\n"}, "kind: Secret\nmetadata: {name: x}\ndata: {u: dQ==}\n",
			"data:\n    pw: YWI=\n    u: dQ==\nkind: Secret\nmetadata:\n    name: x\n", ""},
		{"secret elsewhere", spec.Config{Process: "toSecret", Data: "pw: ab\n"}, "kind: Pod\n", "", "the file is no Secret"},
		{"unknown", spec.Config{Process: "toXml"}, "", "", "process toXml: unknown process"},
		{"not yaml", spec.Config{Process: "toJson", Data: "a: b: c"}, "", "", "process toJson: yaml:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Config(c.c, []byte(c.old))
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Fatalf("got %v, want %s", err, c.fault)
			}
			if d := cmp.Diff(c.want, string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	root, dir := rootOf(t, map[string]string{"etc/v.yaml": "a: 1\n"})
	got, err := Configs(root, []spec.Config{
		{Name: "one", Path: "etc/v.yaml", Strategy: "merge", Data: "b: 2"},
		{Name: "two", Path: "./etc/v.yaml", Strategy: "merge", Data: "a: 3"},
		{Name: "app", Path: "values.yaml", AppName: "nginx", Data: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"application/apps/nginx/values.yaml", "etc/v.yaml"}, got); d != "" {
		t.Error(d)
	}
	want := map[string]string{"etc/v.yaml": "a: 3\nb: 2\n", "application/apps/nginx/values.yaml": "x"}
	if d := cmp.Diff(want, content(t, dir)); d != "" {
		t.Error(d)
	}
	_, err = Configs(root, []spec.Config{
		{Name: "good", Path: "etc/new", Data: "x"}, {Name: "bad", Path: "etc/v.yaml", Process: "toSecret", Data: "a: 1"}, {Name: "worse", Path: "etc", Data: "x"},
	})
	if err == nil || !strings.Contains(err.Error(), "etc/v.yaml: Config bad:") || !strings.Contains(err.Error(), "etc: Config worse:") {
		t.Error(err)
	}
	if d := cmp.Diff(want, content(t, dir)); d != "" {
		t.Errorf("a fault left changes: %s", d)
	}
}

func TestApplication(t *testing.T) {
	t.Parallel()
	root, dir := rootOf(t, map[string]string{"application/apps/nginx/a.sh.tmpl": "echo {{ .x }}", "application/apps/nginx/v.yaml": "a: 1\n"})
	_, err := Application(root, spec.Application{Configs: []spec.AppConfig{{Name: "nginx", Files: []spec.AppFile{
		{Path: "a.sh.tmpl", Strategy: "render", Data: "x: hi"}, {Path: "v.yaml", Strategy: "merge", Data: "b: 2"}, {Path: "n", Data: "n"},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"application/apps/nginx/a.sh.tmpl": "echo {{ .x }}", "application/apps/nginx/a.sh": "echo hi",
		"application/apps/nginx/v.yaml": "a: 1\nb: 2\n", "application/apps/nginx/n": "n",
	}
	if d := cmp.Diff(want, content(t, dir)); d != "" {
		t.Error(d)
	}
	_, err = Application(root, spec.Application{Configs: []spec.AppConfig{{Name: "nginx", Files: []spec.AppFile{
		{Path: "a.sh.tmpl", Strategy: "render", Data: "y: hi"}, {Path: "../../../../x", Data: "n"},
	}}}})
	if err == nil || !strings.Contains(err.Error(), "a.sh.tmpl:1: no value for .x") || !strings.Contains(err.Error(), "../x") {
		t.Error(err)
	}
}

// FuzzTemplate: no template panics or grows without end.
func FuzzTemplate(f *testing.F) {
	f.Add("{{ .A }}{{ range .L }}{{ . | quote }}{{ end }}{{ $x := .No | default .A }}")
	f.Add("{{ define \"a\" }}{{ .B }}{{ end }}{{ template \"a\" . }}")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Template("f", []byte(text), Env{"A": "a", "L": []string{"x"}})
	})
}

// FuzzConfig: no data and no file panics.
func FuzzConfig(f *testing.F) {
	f.Add("a: 1", "a: 2\nb: {c: 3}", uint8(0))
	f.Fuzz(func(t *testing.T, data, old string, how uint8) {
		processes := []string{"", "toJson", "toBase64", "value|toJson", "value|toBase64", "toSecret", "value|toBase64|toSecret", "value"}
		c := spec.Config{Name: "n", Data: data, Process: processes[int(how)%len(processes)]}
		if how >= 128 {
			c.Strategy = spec.StrategyMerge
		}
		_, _ = Config(c, []byte(old))
	})
}
