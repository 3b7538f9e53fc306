package build

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/kubefile"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	a, b := errors.New("a"), errors.New("b")
	at := func(line int, msg string) error { return &kubefile.Error{File: "Kubefile", Line: line, Msg: msg} }
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"none":               {nil, nil},
		"one":                {a, []string{"a"}},
		"join":               {errors.Join(a, nil, b), []string{"a", "b"}},
		"join of joins":      {errors.Join(errors.Join(a, b), joinFaults(b, a)), []string{"a", "b", "b", "a"}},
		"one with two cause": {fmt.Errorf("%w\n%w", a, b), []string{"a\nb"}},
		"context of a list":  {fmt.Errorf("read: %w", errors.Join(a, b)), []string{"read: a\nb"}},
		"several lines":      {errors.New("a\nb"), []string{"a\nb"}},
		"unique, by line":    {unique([]error{at(3, "x"), nil, joinFaults(at(1, "y"), at(3, "x"))}), []string{"Kubefile:1: y", "Kubefile:3: x"}},
		"incomplete":         {incomplete(errors.Join(a, b)), []string{"a", "b"}},
	} {
		var got []string
		for _, e := range Faults(tc.err) {
			got = append(got, e.Error())
			if name == "incomplete" && !errors.Is(e, ErrIncomplete) {
				t.Errorf("%s: %v is not ErrIncomplete", name, e)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if err := joinFaults(nil, nil); err != nil {
		t.Errorf("no fault: %v", err)
	}
	if err := unique([]error{at(1, "x"), incomplete(at(1, "y"))}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%v hides that it is incomplete", err)
	}
}
