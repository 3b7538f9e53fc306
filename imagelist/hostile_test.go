package imagelist_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/clusterimage/sealer/imagelist"
)

// TestHostile gives Scan input that is made to cost time or memory. Each is an
// error that names the file, and the other files are read all the same.
func TestHostile(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: quay.io/x/other:1}]}\n"
	for _, tc := range []struct {
		name, file string
		content    func() []byte
		want       string
	}{
		{"alias bomb", "manifests/bomb.yaml", aliasBomb, "too many values once its aliases are followed"},
		{"merge bomb", "manifests/merge.yaml", mergeBomb, ""},
		{"parameter bomb", "manifests/template.yaml", parameterBomb, ""},
		{"long line", "manifests/long.yaml", func() []byte { return bytes.Repeat([]byte("x"), 100<<20) }, "at most 67108864 are read"},
		{"large document", "manifests/large.yaml", func() []byte { return append([]byte("kind: Pod\nx: "), bytes.Repeat([]byte("y"), 9<<20)...) }, "document too large"},
		{"many values", "manifests/many.yaml", func() []byte { return append([]byte("x: ["), bytes.Repeat([]byte("1,"), 2<<20)...) }, "document too large"},
		{"deep flow", "manifests/deep.yaml", func() []byte { return append([]byte("kind: Pod\nx: "), bytes.Repeat([]byte("["), 500_000)...) }, "depth"},
		{"deep but closed", "manifests/nested.yaml", func() []byte {
			return []byte("kind: Pod\nx: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
		}, "nested too deep"},
		{"deep JSON", "manifests/deep.json", func() []byte { return bytes.Repeat([]byte(`{"a":`), 200_000) }, "depth"},
		{"deep block", "manifests/block.yaml", func() []byte {
			var b bytes.Buffer
			for i := range 2000 {
				fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
			}
			return b.Bytes()
		}, "nested too deep"},
		{"image list of one line", "manifests/imageList", func() []byte { return bytes.Repeat([]byte("x"), 10<<20) }, "want one reference"},
		{"archive that expands", "charts/bomb.tgz", archiveBomb, "larger than the maximum"},
		{"archive cut short", "charts/cut.tgz", func() []byte { b := archiveOf(1, 1000); return b[:len(b)/2] }, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := fstest.MapFS{
				"manifests/other.yaml": {Data: []byte(pod)},
				tc.file:                {Data: tc.content()},
			}
			res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{})
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.file) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want one that names %s and says %q", shortError(err), tc.file, tc.want)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if images := res.Mirror(false); len(images) != 1 || images[0].Reference.Repository != "x/other" {
				t.Errorf("found %v, want the image of the other file alone", images)
			}
		})
	}
}

func shortError(err error) string {
	s := fmt.Sprint(err)
	return s[:min(len(s), 300)]
}

func aliasBomb() []byte {
	var b bytes.Buffer
	b.WriteString("kind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.Bytes()
}

func mergeBomb() []byte {
	var b bytes.Buffer
	b.WriteString("m0: &m0 {a: b}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "m%d: &m%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 4), ", "))
	}
	return b.Bytes()
}

// parameterBomb is a template whose objects grow to 400 GB with its parameters.
func parameterBomb() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Template\nparameters: [{name: A, value: %s}]\nobjects:\n", strings.Repeat("x", 100_000))
	fmt.Fprintf(&b, "- &a {apiVersion: v1, kind: ConfigMap, data: {a: \"%s\"}}\n%s", strings.Repeat("${A}", 20_000), strings.Repeat("- *a\n", 200))
	return b.Bytes()
}

// archiveBomb is a chart with a template of 10 GiB by its header, of which
// 8 MiB follow.
func archiveBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	chart := "apiVersion: v2\nname: bomb\nversion: 1.0.0\n"
	_ = w.WriteHeader(&tar.Header{Name: "bomb/Chart.yaml", Mode: 0o644, Size: int64(len(chart))})
	_, _ = io.WriteString(w, chart)
	_ = w.WriteHeader(&tar.Header{Name: "bomb/templates/a.yaml", Mode: 0o644, Size: 10 << 30})
	zeros := make([]byte, 1<<20)
	for range 8 {
		_, _ = w.Write(zeros)
	}
	_ = z.Close()
	return b.Bytes()
}

func archiveOf(files, size int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	chart := "apiVersion: v2\nname: many\nversion: 1.0.0\n"
	_ = w.WriteHeader(&tar.Header{Name: "many/Chart.yaml", Mode: 0o644, Size: int64(len(chart))})
	_, _ = io.WriteString(w, chart)
	for i := range files {
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("many/files/%d", i), Mode: 0o644, Size: int64(size)})
		_, _ = w.Write(make([]byte, size))
	}
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

func TestChartArchive(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range [][2]string{
		{"app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"},
		{"app/templates/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{image: \"quay.io/x/app:{{ .Values.tag }}\"}]}\n"},
		{"app/values.yaml", "tag: v1\n"},
	} {
		_ = w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		_, _ = io.WriteString(w, f[1])
	}
	_ = w.Close()
	_ = z.Close()
	fsys := fstest.MapFS{
		"charts/app-1.0.0.tgz":            {Data: b.Bytes()},
		"application/apps/x/app.tgz":      {Data: b.Bytes()},
		"application/apps/x/files.tar.gz": {Data: archiveOfText("notes.txt", "no chart")},
	}
	res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{Set: []string{"app.tag=v2"}})
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, f := range res.Found {
		at = append(at, fmt.Sprintf("%s %s:%d", f.Reference, f.File, f.Line))
	}
	want := []string{
		"quay.io/x/app:v2 application/apps/x/app.tgz:app/templates/pod.yaml:4",
		"quay.io/x/app:v2 charts/app-1.0.0.tgz:app/templates/pod.yaml:4",
	}
	if strings.Join(at, "\n") != strings.Join(want, "\n") {
		t.Errorf("found %q, want %q", at, want)
	}
}

func archiveOfText(name, text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Name: "x/" + name, Mode: 0o644, Size: int64(len(text))})
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

func TestScanStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	fsys := fstest.MapFS{}
	for i := range 50 {
		fsys[fmt.Sprintf("manifests/%02d.yaml", i)] = &fstest.MapFile{Data: []byte("kind: Pod\n")}
	}
	opened := &cancelFS{fsys, cancel}
	if _, err := imagelist.Scan(ctx, opened, imagelist.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan = %v, want context.Canceled", err)
	}
}

// cancelFS cancels a context when the tenth manifest is opened.
type cancelFS struct {
	fs.FS
	cancel context.CancelFunc
}

func (c *cancelFS) Open(name string) (fs.File, error) {
	if name == "manifests/09.yaml" {
		c.cancel()
	}
	return c.FS.Open(name)
}

// TestLargeInstallManifest finds the image at the end of an install manifest
// that lies outside manifests and is as large as Kyverno's are.
func TestLargeInstallManifest(t *testing.T) {
	t.Parallel()
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  description: " + strings.Repeat("x", 1<<20) + "\n---\n"
	fsys := fstest.MapFS{"etc/install.yaml": {Data: []byte(strings.Repeat(crd, 7) + "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: ghcr.io/kyverno/kyverno:v1\n")}}
	res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Found) != 1 || res.Found[0].Reference.String() != "ghcr.io/kyverno/kyverno:v1" {
		t.Errorf("found %v", res.Found)
	}
}
