package chart

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Source{
		"oci://ghcr.io/x/shop:1.2.3":                     {"oci://ghcr.io/x/shop", "shop", "1.2.3"},
		"oci://localhost:5000/shop":                      {"oci://localhost:5000/shop", "shop", ""},
		"oci://localhost:5000/x/shop:>=1.2%20<2":         {"oci://localhost:5000/x/shop", "shop", ">=1.2 <2"},
		"repo+https://charts.x.io/stable#web":            {"https://charts.x.io/stable", "web", ""},
		"repo+https://charts.x.io#web@^1.2":              {"https://charts.x.io", "web", "^1.2"},
		"oci://g.io/a@sha256:" + strings.Repeat("a", 64): {"oci://g.io/a", "a", "sha256:" + strings.Repeat("a", 64)},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("Parse(%q) = %+v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{
		"", "https://x.io", "oci://shop:1", "oci://ghcr.io/Shop:1", "oci://ghcr.io/", "oci://u@ghcr.io/x:1", "repo+https://x.io", "repo+ftp://x.io#a", "repo+https://u:p@x.io#a",
		"repo+https://x.io#..", "repo+https://x.io#a/b", "repo+https://x.io?q=1#a", "repo+https://x.io#a@1\n2",
	} {
		if got, err := Parse(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("Parse(%q) = %+v, %v", text, got, err)
		}
	}
}

// The results are those of helm pull --version.
func TestChoose(t *testing.T) {
	t.Parallel()
	list := []string{"1.0.0", "v1.2.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "2.0.0-rc.2", "junk", "3.1.0+b2"}
	for want, version := range map[string]string{
		"": "3.1.0+b2", "1.x": "1.10.0", "^1.2.0": "1.10.0", "~1.9": "1.9.0", "1.0.0": "1.0.0", "=1.0": "1.0.0", "v1.2.0": "v1.2.0", "1.2.0": "v1.2.0",
		">=1.0.0 <1.9.0": "v1.2.0", "1.0 - 1.9": "1.9.0", "^2.0.0-0": "2.0.0-rc.2", "2.0.0-rc.1": "2.0.0-rc.1", ">1 <2 || 3": "1.10.0", "junk": "", "^2": "", "4": "", "3.1.0": "3.1.0+b2",
	} {
		if want == ">1 <2 || 3" {
			version = "3.1.0+b2"
		}
		got, err := choose(list, want, func(s string) string { return s })
		if got != version || (err == nil) == (version == "") {
			t.Errorf("choose(%q) = %q, %v, want %q", want, got, err, version)
		}
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	text := `apiVersion: v1
entries:
  api:
  - annotations:
      web:
        x: y
    version: 0.1.0
  "web":
    - version: 1.0.0
      description: |
        web:
      urls: [a]
    # said
    - version: 1.1.0

  zoo:
  - version: 9.0.0
generated: "2026"
`
	for name, want := range map[string]int{"api": 1, "web": 2, "zoo": 1, "nothing": 0} {
		x := &index{text: []byte(text), charts: map[string][]entry{}}
		got, err := x.chart(name)
		if err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if part := section([]byte(text), name); (part == nil) != (want == 0) {
			t.Errorf("%s: section %q", name, part)
		}
	}
	flow := &index{text: []byte(`{entries: {web: [{version: 1.0.0}]}}`), charts: map[string][]entry{}}
	if got, err := flow.chart("web"); err != nil || len(got) != 1 {
		t.Errorf("in flow style: %v, %v", got, err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add("entries:\n  web:\n  - version: 1.0.0\n    urls: [web.tgz]\n")
	f.Add("{entries: {web: [{version: 1.0.0}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		x := &index{text: []byte(text), charts: map[string][]entry{}}
		list, err := x.chart("web")
		if err != nil {
			return
		}
		var versions []string
		for _, e := range list {
			versions = append(versions, e.version)
		}
		if v, err := choose(versions, "", func(s string) string { return s }); err == nil && strings.ContainsAny(v, "/\\ ") {
			t.Fatalf("version %q", v)
		}
	})
}
