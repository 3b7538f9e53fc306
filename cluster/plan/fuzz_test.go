package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLoad: a plan that is taken is whole, is the same when it is written and read
// again, and can be printed and shortened at any step.
func FuzzLoad(f *testing.F) {
	first := Step{Host: "10.0.0.1", Kind: "kernel", Args: json.RawMessage(`{"a":1}`)}
	first.ID = first.digest()
	second := Step{Host: "10.0.0.2", Kind: "names", Args: json.RawMessage(`{}`), Needs: []string{first.ID}}
	second.ID = second.digest()
	for _, p := range []Plan{{}, {Steps: []Step{first, second}, Hosts: []string{"10.0.0.1"}}, {Steps: []Step{second, first}}} {
		p.APIVersion, p.Facts = Version, "facts"
		var b bytes.Buffer
		if err := p.Encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Load(strings.NewReader(text), "facts")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := p.Encode(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Load(&b, "facts")
		if err != nil {
			t.Fatalf("written and read again: %v", err)
		}
		if d := cmp.Diff(p, again); d != "" {
			t.Error(d)
		}
		if err := p.Print(&b); err != nil {
			t.Error(err)
		}
		for _, s := range p.Steps {
			if n := len(p.Without(map[string]bool{s.ID: true}).Steps); n != len(p.Steps)-1 {
				t.Errorf("%d of %d steps are left without one", n, len(p.Steps))
			}
		}
	})
}
