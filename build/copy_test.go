package build_test

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/build"
)

// TestCopyHeredoc copies what stands in the Kubefile itself.
func TestCopyHeredoc(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := write(t, map[string]string{"Kubefile": "FROM scratch\nARG WHO=all\nCOPY <<motd <<'raw' etc/\nhello $WHO\nmotd\n$WHO\nraw\n"})
	r, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"etc/": "", "etc/motd": "hello all\n", "etc/raw": "$WHO\n"}
	if diff := cmp.Diff(want, tree(t, s, r)); diff != "" {
		t.Error(diff)
	}
}

// TestCopyLeavesCredentialsOut: no source gives a file the name of the list with
// credentials.
func TestCopyLeavesCredentialsOut(t *testing.T) {
	t.Parallel()
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }))
	const list = "imageListWithAuth.yaml"
	for name, tc := range map[string]struct{ lines, file string }{
		"heredoc by its name":     {"COPY <<" + list + " etc/\n[]\n" + list, "etc/" + list},
		"heredoc by DEST":         {"COPY <<EOF etc/" + list + "\n[]\nEOF", "etc/" + list},
		"two heredocs":            {"COPY <<" + list + " <<c etc/\n[]\n" + list + "\nb\nc", "etc/" + list},
		"ADD of a heredoc":        {"ADD <<" + list + " etc/\n[]\n" + list, "etc/" + list},
		"name that an ARG gives":  {"ARG N=" + list + "\nCOPY <<EOF etc/$N\n[]\nEOF", "etc/" + list},
		"download":                {"COPY " + srv.URL + "/" + list + " etc/", list},
		"ADD of a download":       {"ADD " + srv.URL + "/" + list + " etc/", list},
		"file with its name":      {"COPY sub/" + list + " etc/", "sub/" + list},
		"file that takes it":      {"COPY a etc/" + list, "etc/" + list},
		"file that loses it":      {"COPY sub/" + list + " etc/b", "sub/" + list},
		"hard link":               {"COPY hard etc/", "hard"},
		"link in a directory":     {"COPY links etc/", "links/" + list},
		"directory of the name":   {"COPY a etc/" + list + "/", ""},
		"file of a similar name":  {"COPY <<EOF etc/my-" + list + "\n[]\nEOF", ""},
		"file with a longer name": {"COPY a etc/" + list + ".txt", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{
				"Kubefile": "# copy=docker\nFROM scratch\n" + tc.lines + "\n", "a": "a", list: "[]\n", "sub/" + list: "[]\n", "links/b": "b",
			})
			for _, err := range []error{os.Link(filepath.Join(dir, list), filepath.Join(dir, "hard")), os.Symlink("b", filepath.Join(dir, "links", list))} {
				if err != nil {
					t.Fatal(err)
				}
			}
			s := open(t)
			r, err := run(t.Context(), t, s, dir, build.Options{Scan: "off"})
			if err != nil {
				t.Fatal(err)
			}
			if told := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, tc.file+" is not copied: it holds credentials") }); told != (tc.file != "") {
				t.Errorf("warnings %q", r.Warnings)
			}
			for file := range tree(t, s, r) {
				if path.Base(file) == list && !strings.HasSuffix(file, "/") || tc.file != "" && (file == "etc/b" && name != "link in a directory" || file == "etc/hard") {
					t.Errorf("%s is in the image", file)
				}
			}
		})
	}
}

// TestCopyFaultsInOrder reads directories side by side; what is wrong in them
// is told in one order.
func TestCopyFaultsInOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"Kubefile": "FROM scratch\nCOPY . all\n"}
	for i := range 40 {
		files[fmt.Sprintf("d%02d/e/imageListWithAuth.yaml", i)] = "[]\n"
		files[fmt.Sprintf("d%02d/f", i)] = "f"
	}
	dir := write(t, files)
	s := open(t)
	r, err := run(t.Context(), t, s, dir, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("Kubefile:2: COPY: d%02d/e/imageListWithAuth.yaml is not copied: it holds credentials", i))
	}
	if diff := cmp.Diff(want, r.Warnings); diff != "" {
		t.Error(diff)
	}
	if n := len(tree(t, s, r)); n != 122 { // all, Kubefile, and 40 times d, e, f
		t.Errorf("%d entries", n)
	}
}
