package imagelist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestEntries lists the keys of a map, those that it merges behind its own.
func TestEntries(t *testing.T) {
	t.Parallel()
	const anchors = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: &c [*a, {z: 4}]\nm: "
	chain := "a0: &a0 {x: 1}\n"
	for i := 1; i < 20; i++ {
		chain += fmt.Sprintf("a%d: &a%d {<<: *a%d}\n", i, i, i-1)
	}
	for name, tc := range map[string][2]string{
		"own":                   {anchors + "{p: 1, q: 2}", "p=1 q=2"},
		"a key twice":           {anchors + "{p: 1, ? p : 2}", "p=2"},
		"merged":                {anchors + "{<<: *a, y: 9}", "y=9 x=1"},
		"merged of merged":      {anchors + "{<<: *b}", "y=3 x=1"},
		"a list":                {anchors + "{<<: [*b, {y: 5, w: 6}]}", "y=3 x=1 w=6"},
		"a list in a list":      {anchors + "{<<: [*c]}", "x=1 y=2 z=4"},
		"a text, which is none": {anchors + "{<<: *a, p: *a}", "p= x=1 y=2"},
		"no map":                {anchors + "*c", ""},
		"a long chain":          {chain + "m: {<<: *a16}", "x=1"},
		"too long a chain":      {chain + "m: {<<: *a17}", ""},
		"lists in lists":        {"m: {<<: " + strings.Repeat("[", 16) + "{x: 1}" + strings.Repeat("]", 16) + "}", "x=1"},
		"too many in lists":     {"m: {<<: " + strings.Repeat("[", 17) + "{x: 1}" + strings.Repeat("]", 17) + "}", ""},
		"as many as are read":   {"m: {<<: [" + strings.Repeat("{}, ", 1022) + "{x: 1}]}", "x=1"},
		"one more":              {"m: {<<: [" + strings.Repeat("{}, ", 1023) + "{x: 1}]}", ""},
	} {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(tc[0]), &n); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range entries(get(n.Content[0], "m")) {
			got = append(got, e.key+"="+text(e.value))
		}
		if s := strings.Join(got, " "); s != tc[1] {
			t.Errorf("%s: %q, not %q", name, s, tc[1])
		}
	}
}

// TestCheckDepth reads documents that are as deep as they may be, and refuses
// deeper ones.
func TestCheckDepth(t *testing.T) {
	t.Parallel()
	for depth, deep := range map[int]bool{maxDepth - 1: false, maxDepth: false, maxDepth + 1: true} {
		text := strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)
		n, err := parseYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(n); errors.Is(err, errDeep) != deep {
			t.Errorf("YAML of depth %d: %v", depth, err)
		}
		if _, err := parseJSON([]byte(text)); errors.Is(err, errDeep) != deep {
			t.Errorf("JSON of depth %d: %v", depth, err)
		}
	}
}

func TestIsObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{kind: A, apiVersion: v1, spec: {}}": true, "{kind: A, apiVersion: v1, data: {}}": true, "{kind: A, spec: {}}": false,
		"{apiVersion: v1, spec: {}}": false, "{kind: A, apiVersion: v1, name: b}": false,
	} {
		n, err := parseYAML([]byte(text))
		if err != nil || isObject(n) != want {
			t.Errorf("%s: %t, %v", text, !want, err)
		}
	}
}

func TestLooksLikeContainer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{image: a, command: [b]}": true, "{image: a, script: b}": true, "{image: a, command: []}": false, "{image: a, args: b}": false,
		"{command: [b]}": false, "{image: {a: b}, command: [b]}": false, "{image: a, script: [b]}": false, "{image: a, steps: [b]}": false,
	} {
		n, err := parseYAML([]byte(text))
		if err != nil || looksLikeContainer(entries(n)) != want {
			t.Errorf("%s: %t, %v", text, !want, err)
		}
	}
}

func TestIsJSONPatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"[]": false, "[{op: add, path: /a}]": true, "[{op: add, path: a}]": false, "[{path: /a}]": false, "{}": false} {
		n, err := parseYAML([]byte(text))
		if err != nil || isJSONPatch(n) != want {
			t.Errorf("%s: %t, %v", text, !want, err)
		}
	}
}
