package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/clusterimage/sealer/cmd/sealer/internal/hostile"
)

// escapes is a text that takes over a terminal: it sets the title, clears the
// screen, goes back in the line, and turns the direction of writing.
const escapes = "\x1b]0;TITLE\x07\x1b[2J\x1b[31mRED\x1b[0m\rBACK\u009b31m\u202etxt\u2066\u2028\u200b\U000e0041\x7f"

// TestEscapes puts such text into every field of images, into the files of a
// context and into a registry's answers, and runs all commands that print some of
// it: nothing of it reaches the terminal as it is, and a line stays a line.
func TestEscapes(t *testing.T) {
	t.Parallel()
	e := newEscapes(t)
	e.write("all.tar", string(escapedImage("evil.example/x/all:1", escapes+"\nevil.example/x/all:1: verified: FORGED").Archive()))
	e.write("name.tar", string(hostile.Image{Name: "evil.example/x/ok:1" + escapes, Layers: []hostile.Layer{{Blob: hostile.Tar(hostile.File("a", "1"))}}}.Archive()))
	e.write("platform.tar", string(hostile.Image{
		Name: "evil.example/x/platform:1", Layers: []hostile.Layer{{Blob: hostile.Tar(hostile.File("b"+escapes, "1"))}},
		Config: hostile.Doc{"platform": hostile.Doc{"os": "linux" + escapes, "architecture": "amd64" + escapes, "variant": escapes}},
	}.Archive()))
	e.write("plain.tar", string(hostile.Image{Name: "evil.example/x/plain:1", Layers: []hostile.Layer{{Blob: hostile.Tar(hostile.File("a", "1"))}}}.Archive()))
	e.write("Kubefile", "FROM scratch\nLABEL a=\"x"+escapes+"\"\nCOPY manifests manifests\nCMD echo \u202e\u009b\n")
	e.write("manifests/pod.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: "a\e[2J\u202e"}, spec: {containers: [{name: a, image: "bad\e[2J\u202eREF"}, {name: b, image: "nginx:1"}, {name: c, image: "{{ .Values.x\e[2J }}"}]}}`+"\n")
	e.write("manifests/w\u202e\u009b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: b, image: 'busybox:1'}]}\n")
	e.write("manifests/imageList", "UPPER\x1b[2J\u202e\n")

	for _, archive := range []string{"all", "name", "platform", "plain"} {
		e.run("load", "-i", archive+".tar")
	}
	for _, args := range everyCommand(e.registry(), e.registry()) {
		e.run(args...)
	}
}

// everyCommand returns the commands that print text from outside.
func everyCommand(lying, refusing string) [][]string {
	all, plain := "evil.example/x/all:1", "evil.example/x/plain:1"
	var out [][]string
	for _, kind := range [][]string{nil, {"-o", "json"}, {"-o", "yaml"}} {
		for _, args := range [][]string{{"images"}, {"inspect", all}, {"inspect", all, "--images"}, {"verify", all}, {"diff", plain, all}, {"scan", "."}, {"scan", ".", "--rejected"}} {
			out = append(out, append(args, kind...))
		}
	}
	return append(out, [][]string{
		{"images", "--format", "{{.name}} {{.platform}} {{json .}}"}, {"inspect", all, "--format", "{{.spec}}"}, {"inspect", "x" + escapes},
		{"--progress", "json", "verify", "--repair", all}, {"--debug", "verify", all},
		{"build", "-t", "a/b:1", "."}, {"build", "--check", "."}, {"build", "--progress", "json", "-t", "a/b:1", "."}, {"build", "--dry-run", "-t", "a/b:1", "."},
		{"redirect", all}, {"registry", "hosts", all, "--server", "https://a:1"}, {"registry", "push", all, lying + "/x"},
		{"tag", all, "a/c:1"}, {"tag", all, "\u202eA"}, {"merge", "-t", "a/d:1", all, plain}, {"save", "-o", "out.tar", all}, {"push", all}, {"prune", "--dry-run"},
		{"run", all}, {"gen", all}, {"rmi", all}, {"no-such-\u202e\x1b[2J"}, {"images", "--no-\x1b[2J"},
		{"--insecure-registry", lying, "pull", lying + "/x/y:1"}, {"pull", "--insecure-registry", lying, lying + "/x/y:1"}, {"pull", "--debug", "--insecure-registry", refusing, refusing + "/x/y:1"},
		{"login", "--insecure-registry", lying, "-u", "u\x1b[2J", "-p", "p", lying}, {"exec", "-m", "\x1b[2J", "--", "ls"}, {"apply", "-f", "manifests/pod.yaml"}, {"check", "--pre", "-f", "manifests/pod.yaml"},
	}...)
}

// escapedImage returns an image with text in each field that may hold it.
func escapedImage(name, text string) hostile.Image {
	d := func(kv ...any) hostile.Doc {
		out := hostile.Doc{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	found := []any{d("file", "f"+text, "line", 1, "object", "o"+text, "rule", "r"+text, "confidence", "certain"+text, "field", text, "values", text, "written", text)}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: 'nginx:1'}]}\n"
	return hostile.Image{
		Name:   name,
		Layers: []hostile.Layer{{Blob: hostile.Tar(hostile.File("a"+text+"b", "1"), hostile.File("manifests/x.yaml", pod)), Type: "COPY" + text, Value: "v" + text}},
		Config: d("type", "app"+text, "sealerVersion", text, "maintainer", text, "labels", d("l"+text, "v"+text), "env", d("E"+text, "x"+text),
			"cmd", d("current", []any{"echo " + text}, "parent", []any{"p" + text}), "args", d("current", d("A"+text, text)),
			"applications", []any{d("name", "ap"+text, "type", "helm"+text, "files", []any{text}, "cmds", []any{text}, "version", text)}, "launch", d("apps", []any{text}),
			"registry", d("name", "sea.hub:5000", "naming", "path"),
			"gaps", []any{d("grade", "open", "rule", "r"+text, "subject", "s"+text, "file", "f"+text, "line", 1, "object", text, "field", text, "reason", text, "remedy", text, "declared", "")},
			"images", []any{d("reference", "docker.io/library/nginx:1", "missing", "m"+text, "platforms", []any{text}, "found", found)}),
		Manifest: hostile.Doc{"annotations": d("a"+text, "b"+text)},
	}
}

// An escapesRun runs commands in a directory with a store of its own.
type escapesRun struct {
	t   *testing.T
	dir string
}

func newEscapes(t *testing.T) *escapesRun { return &escapesRun{t: t, dir: t.TempDir()} }

func (e *escapesRun) write(name, content string) {
	e.t.Helper()
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

// registry starts a registry whose errors and headers hold escapes.
func (e *escapesRun) registry() string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", "application/\u202e\u009b")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors":[{"code":"X\u001b[2J\u202e","message":"m\u001b]0;T\u0007\u009b\nError: forged"}]}`)
	}))
	e.t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// run runs sealer, whatever its exit code, and looks at both streams.
func (e *escapesRun) run(args ...string) {
	e.t.Helper()
	cmd := exec.Command("sealer", args...)
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "SEALER_ROOT="+e.dir+"/store", "HOME="+e.dir+"/home", "XDG_RUNTIME_DIR="+e.dir, "REGISTRY_AUTH_FILE="+e.dir+"/auth.json",
		"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || bytes.Contains(out, []byte("goroutine ")) {
		e.t.Fatalf("sealer %q: %v\n%s", args, err, out)
	}
	for _, r := range string(out) {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == 0x200b || r == 0xe0041) {
			e.t.Errorf("sealer %q prints U+%04X:\n%q", args, r, out)
			break
		}
	}
	if slices.Contains(args, "--format") {
		return // the user's template says where lines end
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "evil.example/x/all:1: verified: FORGED") || strings.HasPrefix(line, "Error: forged") {
			e.t.Errorf("sealer %q prints a line of the image as its own: %q", args, line)
		}
	}
}
