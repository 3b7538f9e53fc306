package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// foreign are the texts of docs/troubleshooting.md that come from the standard
// library, the kernel or registries.
var foreign = []string{
	"unauthorized", "429", "toomanyrequests", "certificate signed by unknown authority", "certificate is valid for … not …",
	"no space left on device", "unexpected EOF", "404", "MANIFEST_UNKNOWN", "x509", "405", "UNSUPPORTED", "413", "sealer images",
	"fallback tag manifest is not an OCI image index",
}

// Every error text by which docs/troubleshooting.md is searched is one that the
// program prints.
func TestTroubleshootingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	source := programText(t)
	entries := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "**") {
			continue
		}
		entries++
		for _, text := range quoted(line) {
			known := false
			for _, f := range foreign {
				known = known || f == text
			}
			if !known && !strings.Contains(source, text) {
				t.Errorf("no source has the text %q: correct docs/troubleshooting.md", text)
			}
		}
	}
	if entries < 20 {
		t.Errorf("%d entries found; is the page's form another?", entries)
	}
}

// programText returns the sources of the program, without tests.
func programText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (d.Name() == ".git" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
