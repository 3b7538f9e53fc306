package imagelist

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentLimits has documents of the largest size, and of one byte or value
// more.
func TestDocumentLimits(t *testing.T) {
	t.Parallel()
	if err := checkSize(bytes.Repeat([]byte("x"), maxDocument)); err != nil {
		t.Errorf("the largest document: %v", err)
	}
	if err := checkSize(bytes.Repeat([]byte("x"), maxDocument+1)); !errors.Is(err, errTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
	for _, value := range []string{",", "[", "{", "\n", "- "} {
		if err := checkSize([]byte(strings.Repeat(value, maxNodes))); err != nil {
			t.Errorf("as many %q as may be: %v", value, err)
		}
		if err := checkSize([]byte(strings.Repeat(value, maxNodes) + ",")); !errors.Is(err, errTooLarge) {
			t.Errorf("a value more than %q may be: %v", value, err)
		}
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{"---": true, "---\n": true, "---\r\n": true, "--- # x": true, "---\t# x": true, "---x": false, "----": false, "--": false, " ---": false} {
		if got := isMarker([]byte(line)); got != want {
			t.Errorf("isMarker(%q) = %t", line, got)
		}
	}
}

// TestListLineLimit has lines of a list of the largest length, and longer ones.
func TestListLineLimit(t *testing.T) {
	t.Parallel()
	fits, long := strings.Repeat("a", maxLine-1), strings.Repeat("b", maxLine)
	var got []int
	var s scanner
	s.listLines(List{Name: "list", Content: []byte(long + "\n" + fits + "\nc\n")}, func(line int, text string) { got = append(got, line, len(text)) })
	if diff := cmp.Diff([]int{2, maxLine - 1, 3, 1}, got); diff != "" {
		t.Errorf("lines and their lengths (-want +got):\n%s", diff)
	}
}

// Warnings that say the same of several files are one line.
func TestJoinWarnings(t *testing.T) {
	t.Parallel()
	got := joinWarnings([]string{"a: x", "a: y", "b: x", "c: x", "d: x", "e: x", "no file", "other text"})
	want := []string{"a: x (and 4 more: b, c, d, …)", "a: y", "no file", "other text"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
