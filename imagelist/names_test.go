package imagelist

import (
	"strings"
	"testing"
)

func TestWordsOfKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"imageTag": "image tag", "IMAGE_TAG": "image tag", "pullPolicy2Alpha": "pull policy2 alpha", "a0A9Zz": "a0 a9 zz", "azAZ": "az az",
		"my-app.image/x:y": "my app image x y", "zA": "z a", "a": "a", "": "",
	} {
		if got := strings.Join(words(key), " "); got != want {
			t.Errorf("words(%q) = %q, not %q", key, got, want)
		}
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a.png": true, "a.PNG": true, ".gz": true, "a.qcow2": true, "a.png.b": false, "png": false, "a.b": false, "": false, "v1.0": false,
	} {
		if got := isFileName(name); got != want {
			t.Errorf("isFileName(%q) = %t", name, got)
		}
	}
	for s, want := range map[string]bool{"a": true, "z": true, "1m1": true, "A": false, "`{": false, "": false} {
		if got := hasLetter(s); got != want {
			t.Errorf("hasLetter(%q) = %t", s, got)
		}
	}
}

// TestListLine reads lines of lists: one reference, among other words, or none.
func TestListLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		image  string
		fields int
		sure   bool
	}{
		"quay.io/x/a:1":               {"quay.io/x/a:1", 1, true},
		"- quay.io/x/a:1":             {"quay.io/x/a:1", 1, true},
		"\"quay.io/x/a:1\",":          {"quay.io/x/a:1", 1, true},
		"quay.io/x/a:1 sea.hub/x/a:1": {"", 2, false},
		"name quay.io/x/a:1 v1":       {"quay.io/x/a:1", 3, true},
		"IMAGE=quay.io/x/a:1":         {"quay.io/x/a:1", 1, true},
		"nginx:1.25=quay.io/x/a:1":    {"quay.io/x/a:1", 1, true},
		"x/a":                         {"x/a", 1, false},
		"nginx:1.25":                  {"nginx:1.25", 1, false},
		"nginx:1.25 latest":           {"", 2, false},
		"some words":                  {"", 2, false},
		"":                            {"", 0, false},
	} {
		image, fields, sure := listLine(text)
		if image != want.image || fields != want.fields || sure != want.sure {
			t.Errorf("%q: %q, %d, %t", text, image, fields, sure)
		}
	}
}

func TestLongNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"12345678": true, "1234567": false, "a00000000b": true, "99999999": true, "1234567a8": false, "123456789": true, "/1234567:": false, "": false} {
		if got := hasLongNumber([]byte(text)); got != want {
			t.Errorf("hasLongNumber(%q) = %t", text, got)
		}
	}
}

// TestRuleLines refuses rules with too few or too many words.
func TestRuleLines(t *testing.T) {
	t.Parallel()
	for line, ok := range map[string]bool{
		"gap a because b": true, "gap a in f because b c": true, "gap a": false, "gap": false, "gap a in": false, "gap a because": false, "gap a in f": false, "gap a due b": false,
		"allowedRegistries quay.io": true, "allowedRegistries quay.io docker.io/library": true, "allowedRegistries": false, "allowedRegistries a://b": false,
		"ignore a": true, "ignore a in f": true, "ignore a of f": false, "ignore a in": false, "ignore": false, "ignore A": false,
		"field Kind spec.a[].b": true, "field Kind.g.io a": true, "field Kind": false, "field Kind a..b": false, "field Kind a b": false,
		"include quay.io/x/a:1": true, "include": false, "include a b": false, "other a": false,
	} {
		s := newScanner(t.Context(), Options{})
		s.parseRules([]byte("# a comment\n\n" + line + "\n"))
		if got := len(s.faults) == 0; got != ok {
			t.Errorf("%q: %v", line, s.faults)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*a", "ba", true}, {"*a", "ab", false}, {"a*c*e", "abcde", true}, {"a*c*e", "abde", false},
		{"*", "", true}, {"a*a", "a", false}, {"*b*", "b", true}, {"*bc*bc", "bcbc", true}, {"*ab*ab*", "ab", false}, {"*bb*ba", "bbba", true},
	} {
		if got := glob(tc.pattern, tc.text); got != tc.want {
			t.Errorf("glob(%q, %q) = %t", tc.pattern, tc.text, got)
		}
	}
}

// TestChartSource names the place from which a chart is fetched, or why none can
// be.
func TestChartSource(t *testing.T) {
	t.Parallel()
	for _, tc := range [][4]string{
		{"oci://r.io/c/", "a", "1.0", "oci://r.io/c/a:1.0"}, {"oci://r.io/c", "a", "", "oci://r.io/c/a"},
		{"https://r.io/", "a", " >=1 <2 ", "repo+https://r.io#a@>=1%20<2"}, {"http://r.io", "a", "", "repo+http://r.io#a"},
		{"@local", "a", "1", "one machine's helm"}, {"alias:local", "a", "1", "one machine's helm"}, {"", "a", "1", "it has no repository"}, {"file://x", "a", "1", "its repository is file://x"},
	} {
		got, err := chartSource(tc[0], tc[1], tc[2])
		if err != nil && strings.Contains(err.Error(), tc[3]) && got == "" || err == nil && got == tc[3] {
			continue
		}
		t.Errorf("%v: %q, %v", tc, got, err)
	}
}
