package hostile

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chartTemplate is the head of a template that ends in a container's image.
const chartTemplate = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: a\n    image: "

// A chartCase is a chart c, by its files besides Chart.yaml, and what sealer scan
// says of it. {other} is a server that must not be asked.
type chartCase struct {
	name string
	exit int
	text string
	// files, by path in the chart; the value of one that begins with "-> " is a
	// link to the rest.
	files map[string]string
}

// charts returns charts and manifests, which sealer scan reads with no network.
func charts() []Case {
	var out []Case
	for _, c := range slices.Concat(chartTemplates(), chartReach(), chartFiles(), manifestFiles()) {
		out = append(out, Case{
			Group: "chart and manifest", Name: c.name, Exit: c.exit, Text: c.text, Args: []string{"scan", "."},
			Make: func(dir string, p Places) {
				Write(dir, "Kubefile", "FROM scratch\nCOPY charts .\nCOPY manifests .\nCMD x\n")
				must(os.MkdirAll(filepath.Join(dir, "manifests"), 0o755))
				Write(dir, "charts/c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
				for _, name := range slices.Sorted(maps.Keys(c.files)) {
					place(dir, name, p.in(c.files[name]))
				}
			},
		})
	}
	return out
}

// place writes a file of a context, or makes the link that content describes.
func place(dir, name, content string) {
	target, ok := strings.CutPrefix(content, "-> ")
	if !ok {
		Write(dir, name, content)
		return
	}
	must(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must(os.RemoveAll(filepath.Join(dir, name)))
	must(os.Symlink(target, filepath.Join(dir, name)))
}

func chartTemplates() []chartCase {
	one := func(name string, exit int, text, template string) chartCase {
		return chartCase{name, exit, text, map[string]string{"charts/c/templates/p.yaml": template}}
	}
	return []chartCase{
		one("template that reads the environment", 1, "function \"env\" not defined", chartTemplate+`'{{ env "HOME" }}{{ expandenv "$HOME" }}'`),
		one("template that resolves a host name", 0, "busybox:none", chartTemplate+`'busybox:{{ getHostByName "localhost" | replace "." "-" | default "none" }}'`),
		one("template that looks into a cluster", 0, "busybox:0", chartTemplate+`'busybox:{{ lookup "v1" "Secret" "kube-system" "x" | len }}'`),
		one("template that reads files of the machine", 0, "busybox:v0-0", chartTemplate+`'busybox:v{{ .Files.Get "../../../../../../etc/passwd" | len }}-{{ .Files.Get "/etc/passwd" | len }}'`),
		one("template that lists files of the machine", 0, "busybox:v ", chartTemplate+`'busybox:v{{ range $k, $v := .Files.Glob "../../**" }}{{ $k }}{{ end }}'`),
		one("template that includes itself", 1, "the template includes itself without end", `{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`),
		one("template that expands itself by tpl", 1, "the template includes itself without end", `{{ define "x" }}{{ tpl "{{ include \"x\" . }}" . }}{{ end }}{{ include "x" . }}`),
		one("template that loops over 2^60 numbers", 1, "the templates do not come to an end", `{{ range $i := until 1152921504606846976 }}{{ $i }}{{ end }}`),
		one("template that repeats a text to 100 GB", 1, "the templates do not come to an end", `{{ repeat 100000000 "aaaaaaaaaa" | repeat 100 }}`),
		one("template that makes keys of 8,192 bits", 0, "docker.io/library/busybox:3", chartTemplate+`'busybox:{{ genPrivateKey "rsa" | len }}'`),
		one("template with escape sequences in an image", 1, "invalid reference format", chartTemplate+`"busy\e[2Jbox:1"`),
		one("template that does not parse", 1, "missing value for if", `{{ if }}`),
		one("aliases that multiply to 10^9", 1, "too many values once its aliases are followed", aliases()),
	}
}

// aliases returns a YAML document whose aliases multiply.
func aliases() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		n := string(rune('0' + i))
		p := string(rune('0' + i - 1))
		b.WriteString("  a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+p+",", 10), ",") + "]\n")
	}
	return b.String()
}

// chartReach are charts that reach for the network.
func chartReach() []chartCase {
	template := chartTemplate + `"{{ .Values.image }}"` + "\n"
	const elsewhere = "a schema elsewhere, which is not fetched"
	schema := func(name string, exit int, text, s string) chartCase {
		return chartCase{name, exit, text, map[string]string{
			"charts/c/templates/p.yaml": template, "charts/c/values.yaml": "image: busybox:1.36\n", "charts/c/values.schema.json": s,
		}}
	}
	return []chartCase{
		schema("schema that is on a server", 0, elsewhere, `{"properties":{"image":{"$ref":"http://{other}/internal?probe=1"}}}`),
		schema("schema whose $schema is on a server", 0, elsewhere, `{"$schema":"http://{other}/schema","type":"object"}`),
		schema("schema whose $id is on a server", 0, elsewhere, `{"$id":"http://{other}/x/","properties":{"image":{"$ref":"y.json"}}}`),
		schema("schema that is a file of the machine", 0, elsewhere, `{"properties":{"image":{"$ref":"file:///etc/shadow"}}}`),
		schema("schema that is /dev/zero", 0, elsewhere, `{"properties":{"image":{"$ref":"file:///dev/zero"}}}`),
		schema("schema that names itself", 3, "1 gap is open", `{"$ref":"#"}`),
		{"dependency of a repository that is missing", 3, "1 gap is open", map[string]string{
			"charts/c/Chart.yaml":       "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n- {name: d, version: 1.0.0, repository: 'http://{other}/charts'}\n",
			"charts/c/templates/p.yaml": chartTemplate + "busybox:1.36\n",
		}},
		{"dependency on itself by a path", 3, "1 gap is open", map[string]string{
			"charts/c/Chart.yaml":       "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n- {name: c, version: 1.0.0, repository: 'file://.'}\n",
			"charts/c/templates/p.yaml": chartTemplate + "busybox:1.36\n",
		}},
		{"kustomization of a base on a server", 3, "1 gap is open", map[string]string{"manifests/kustomization.yaml": "resources: ['http://{other}/base']\n"}},
		{"kustomization of a file outside", 3, "1 gap is open", map[string]string{"manifests/kustomization.yaml": "resources: ['../../../../../../../../{victim}/file']\n"}},
		{"kustomization that runs a program", 3, "1 gap is open", map[string]string{
			"manifests/kustomization.yaml": "generators: [g.yaml]\n",
			"manifests/g.yaml":             "apiVersion: x/v1\nkind: G\nmetadata: {name: g, annotations: {config.kubernetes.io/function: \"{exec: {path: /bin/false}}\"}}\n",
		}},
	}
}

func chartFiles() []chartCase {
	return []chartCase{
		{"values.yaml that is a link outside", 0, "0 images that a build mirrors", map[string]string{"charts/c/values.yaml": "-> {victim}/file"}},
		{"templates that are a link outside", 0, "0 images that a build mirrors", map[string]string{"charts/c/templates": "-> {victim}"}},
		{"chart that is a link to /", 0, "a link to a directory is not followed", map[string]string{"charts/d": "-> /"}},
		{"chart that links to itself", 0, "0 images that a build mirrors", map[string]string{"charts/c/charts": "-> .."}},
		{"Chart.yaml that is no YAML", 1, "cannot load Chart.yaml", map[string]string{"charts/c/Chart.yaml": "\x00\xff"}},
		{"Chart.yaml with a name of ..", 1, "chart.metadata.name \"../../x\" is invalid", map[string]string{"charts/c/Chart.yaml": "apiVersion: v2\nname: ../../x\nversion: 1.0.0\n"}},
		{"archive with .. in its names", 1, "chart illegally references parent directory", map[string]string{"charts/e.tgz": string(Gzip(Tar(File("../../x/Chart.yaml", "name: x"))))}},
		{"archive that unpacks to 200 MB", 1, "decompressed chart is larger than the maximum file size", map[string]string{"charts/e.tgz": string(Gzip(Tar(File("e/Chart.yaml", "apiVersion: v2\nname: e\nversion: 1.0.0\n"), File("e/zeros", strings.Repeat("\x00", 200<<20)))))}},
		{"archive that is cut", 1, "unexpected EOF", map[string]string{"charts/e.tgz": string(Gzip(Tar(File("e/Chart.yaml", "name: e")))[:30])}},
	}
}

func manifestFiles() []chartCase {
	deep := strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000)
	return []chartCase{
		{"manifest nested 5,000 deep", 1, "nested too deep", map[string]string{"manifests/a.yaml": deep}},
		{"manifest of 30,000 documents", 0, "0 images that a build mirrors", map[string]string{"manifests/a.yaml": strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 30_000)}},
		{"manifest that is a link outside", 0, "0 images that a build mirrors", map[string]string{"manifests/a.yaml": "-> {victim}/file"}},
		{"manifest that is a link to /dev/zero", 0, "0 images that a build mirrors", map[string]string{"manifests/a.yaml": "-> /dev/zero"}},
		{"list that names no image", 1, "invalid image reference", map[string]string{"manifests/imageList": "UPPER/case\nbusybox:1.36\n../../x\n"}},
		{"list with a password in a name", 1, "no user and password belong into it", map[string]string{"manifests/imageList": "joe:" + Password + "@reg.example/x:1\n"}},
		{"list of 2 MB in one line", 1, "line of 2097152 bytes, want one reference", map[string]string{"manifests/imageList": strings.Repeat("a", 2<<20)}},
	}
}
