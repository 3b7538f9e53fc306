// Package plan runs the checks that the command policytest prints against an engine. It is
// shared by the modules that bring one, and a module of its own, so that they
// need not agree with sealer on the versions of its dependencies.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A Policy is one engine with one option.
type Policy struct {
	Name   string  `json:"name"`
	Engine string  `json:"engine"`
	YAML   string  `json:"yaml"`
	Checks []Check `json:"checks"`
}

// A Check is an admission request and its expected result.
type Check struct {
	Name        string            `json:"name"`
	Operation   string            `json:"op"`
	SubResource string            `json:"subResource"`
	NSLabels    map[string]string `json:"nsLabels"`
	Object      json.RawMessage   `json:"object"`
	OldObject   json.RawMessage   `json:"oldObject"`
	Want        []string          `json:"want"` // images of containers, initContainers, ephemeralContainers
	Denied      bool              `json:"denied"`
}

// An Evaluator admits the request of a check: it returns the object as it is
// stored, and why it is denied, or "".
type Evaluator func(t *testing.T, c Check) (object map[string]any, denied string)

// Run evaluates every policy of the engines that newEvaluator knows, and prints
// a line for each. newEvaluator returns nil for the others.
func Run(t *testing.T, title string, newEvaluator func(t *testing.T, p Policy) Evaluator) {
	policies := load(t)
	total, rewritten := 0, 0
	for _, p := range policies {
		evaluate := newEvaluator(t, p)
		if evaluate == nil {
			continue
		}
		good, changed, denied := 0, 0, 0
		for _, c := range p.Checks {
			object, reason := evaluate(t, c)
			if (reason != "") != c.Denied {
				t.Errorf("%s, %s, case %s: denied %q, want denied: %v", p.Engine, p.Name, c.Name, reason, c.Denied)
				continue
			}
			if c.Denied {
				good, denied = good+1, denied+1
				continue
			}
			got := images(t, object)
			if !slices.EqualFunc(got, c.Want, same) {
				t.Errorf("%s, %s, case %s: %v, want %v", p.Engine, p.Name, c.Name, got, c.Want)
				continue
			}
			good++
			for i, was := range images(t, Object(t, c.Object)) {
				if was != got[i] {
					changed++
				}
			}
		}
		fmt.Printf("%-8s %-16s %-50s %3d of %3d cases, %3d images rewritten, %2d requests denied\n", title, p.Engine, p.Name, good, len(p.Checks), changed, denied)
		total, rewritten = total+good, rewritten+changed
	}
	fmt.Printf("%-8s total: %d cases as they should be, %d images rewritten\n", title, total, rewritten)
	if total == 0 {
		t.Error("nothing was evaluated")
	}
}

// same compares references: :latest may be left out, and hosts are compared
// without regard to case.
func same(a, b string) bool {
	full := func(s string) string {
		if s != "" && !strings.ContainsAny(s[strings.LastIndexByte(s, '/')+1:], ":@") {
			s += ":latest"
		}
		host, rest, _ := strings.Cut(s, "/")
		return strings.ToLower(host) + "/" + rest
	}
	return full(a) == full(b)
}

// load runs the program beside this package.
func load(t *testing.T) []Policy {
	t.Helper()
	cmd := exec.Command("go", "run", "./redirect/policytest")
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var policies []Policy
	if err := json.Unmarshal(out, &policies); err != nil {
		t.Fatal(err)
	}
	return policies
}

// images returns the images of a pod; of any other object none.
func images(t *testing.T, object map[string]any) []string {
	t.Helper()
	var out []string
	spec, _ := object["spec"].(map[string]any)
	for _, field := range []string{"containers", "initContainers", "ephemeralContainers"} {
		list, _ := spec[field].([]any)
		for _, c := range list {
			image, _ := c.(map[string]any)["image"].(string)
			out = append(out, image)
		}
	}
	return out
}
