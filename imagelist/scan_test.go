package imagelist_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/clusterimage/sealer/imagelist"
)

var update = flag.Bool("update", false, "rewrite the want files of testdata")

// TestScan runs every archive of testdata: its files are a rootfs, "want" is
// what the scan finds. Lines "key: value" of the comment set options.
func TestScan(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			fsys := fstest.MapFS{}
			want := -1
			var o imagelist.Options
			for i, f := range a.Files {
				switch f.Name {
				case "want":
					want = i
				case imagelist.RulesFile:
					o.Rules = f.Data
				case "ignored":
					o.Ignored = append(o.Ignored, imagelist.List{Name: f.Name, Content: f.Data})
				case "list":
					o.Lists = append(o.Lists, imagelist.List{Name: f.Name, Content: f.Data})
				default:
					fsys[f.Name] = &fstest.MapFile{Data: unescape(f.Data)}
				}
			}
			if err := setOptions(&o, string(a.Comment)); err != nil {
				t.Fatal(err)
			}
			res, err := imagelist.Scan(t.Context(), fsys, o)
			got := describe(res, err)
			if *update {
				if want < 0 {
					want = len(a.Files)
					a.Files = append(a.Files, txtar.File{Name: "want"})
				}
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(p, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want < 0 {
				t.Fatal("no want file; run: go test ./imagelist -run TestScan -update")
			}
			if diff := cmp.Diff(string(a.Files[want].Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			o.Objects = objects(t, fsys)
			if diff := cmp.Diff(got, describe(imagelist.Scan(t.Context(), fsys, o))); diff != "" {
				t.Errorf("knowing the files with objects (-without +with):\n%s", diff)
			}
		})
	}
}

// objects returns the files that a build would name to a scan.
func objects(t *testing.T, fsys fstest.MapFS) map[string]bool {
	out := map[string]bool{"gone/deployment.yaml": true} // of a layer below
	for name, f := range fsys {
		has, err := imagelist.HasObjects(bytes.NewReader(f.Data), make([]byte, 4096))
		if err != nil {
			t.Fatal(err)
		}
		if has || imagelist.Telling(name) {
			out[name] = true
		}
	}
	return out
}

// unescape puts in what a text file cannot show: <CR> at the end of a line,
// <BOM>, <TAB>, <NUL>.
func unescape(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("<CR>"), []byte("\r"))
	b = bytes.ReplaceAll(b, []byte("<TAB>"), []byte("\t"))
	b = bytes.ReplaceAll(b, []byte("<NUL>"), []byte("\x00"))
	return bytes.ReplaceAll(b, []byte("<BOM>"), []byte("\xef\xbb\xbf"))
}

func setOptions(o *imagelist.Options, comment string) error {
	for l := range strings.Lines(comment) {
		key, value, ok := strings.Cut(strings.TrimSpace(l), ": ")
		if !ok {
			continue
		}
		switch key {
		case "mode":
			o.Mode = value
		case "kube-version":
			o.KubeVersion = value
		case "kube-range":
			o.KubeRange = value
		case "api":
			o.APIVersions = append(o.APIVersions, value)
		case "set":
			o.Set = append(o.Set, value)
		case "private":
			o.PrivateRegistry = value
		case "command":
			o.Commands = append(o.Commands, imagelist.Command{File: "Kubefile", Line: len(o.Commands) + 2, Text: value})
		case "variable":
			name, text, _ := strings.Cut(value, "=")
			o.Variables = append(o.Variables, imagelist.Variable{File: "Kubefile", Line: len(o.Variables) + 2, Object: "ENV", Name: name, Value: text})
		case "strict":
			o.Strict = value == "true"
		case "lenient":
			o.Lenient = value == "true"
		case "probe":
			o.ChartProbe = value == "true"
		}
	}
	return nil
}

// describe prints a result in the form of the want files.
func describe(r *imagelist.Result, err error) string {
	var b strings.Builder
	for _, im := range r.Images() {
		fmt.Fprintf(&b, "%s %s", im.Confidence, im.Reference)
		if im.Source != im.Reference {
			fmt.Fprintf(&b, " from %s", im.Source)
		}
		if im.Credential != nil {
			fmt.Fprintf(&b, " as %s", im.Credential)
		}
		b.WriteByte('\n')
		for _, f := range im.Findings {
			fmt.Fprintf(&b, "\t%s %s", place(f.File, f.Line, f.Rendered), f.Object)
			for _, s := range []string{f.Field, f.Values, f.Rule, f.Reason} {
				if s != "" {
					fmt.Fprintf(&b, " | %s", s)
				}
			}
			b.WriteByte('\n')
		}
	}
	for _, im := range r.Requirements() {
		fmt.Fprintf(&b, "required %s\n", im.Reference)
	}
	for _, f := range r.Rejected {
		fmt.Fprintf(&b, "rejected %q %s %s | %s | %s\n", f.Written, place(f.File, f.Line, f.Rendered), f.Field, f.Rule, f.Reason)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(&b, "%s gap %s (%s) %s", g.Grade, g.Subject, g.Rule, g.Place())
		for _, s := range []string{g.Object, g.Field, g.Text, g.Reason, g.Remedy} {
			if s != "" {
				fmt.Fprintf(&b, " | %s", s)
			}
		}
		if g.More > 0 {
			fmt.Fprintf(&b, " | %d more", g.More)
		}
		if g.Declared != "" {
			fmt.Fprintf(&b, " | declared: %s", g.Declared)
		}
		b.WriteByte('\n')
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	if err != nil {
		for l := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(&b, "error %s\n", l)
		}
	}
	return b.String()
}

func place(file string, line, rendered int) string {
	if rendered > 0 {
		return fmt.Sprintf("%s:%d(rendered %d)", file, line, rendered)
	}
	return fmt.Sprintf("%s:%d", file, line)
}
