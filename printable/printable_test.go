package printable

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"Grüße, 世界 👩\u200d💻 \u00a0", "Grüße, 世界 👩\u200d💻 \u00a0"},
		{"\x1b]0;title\x07", `\u001b]0;title\u0007`},
		{"a\rb\x00\x7f", `a\u000db\u0000\u007f`},
		{"\u009b31m", `\u009b31m`},
		{"\x9b31m", `\x9b31m`}, // C1 as a byte of its own
		{"\u202etxt.exe\u2066", `\u202etxt.exe\u2066`},
		{"a\u2028b\u200b\ufeff", `a\u2028b\u200b\ufeff`},
		{"\U000e0041", `\udb40\udc41`},
		{"bad \xff\xc3(\xe2\x82", `bad \xff\xc3(\xe2\x82`},
		{"\ufffd", "\ufffd"},
	} {
		for step := 1; step <= len(tc.in); step++ { // characters come in pieces
			var out bytes.Buffer
			p := NewWriter(&out)
			for chunk := range slices.Chunk([]byte(tc.in), step) {
				if n, err := p.Write(chunk); n != len(chunk) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want {
				t.Errorf("%q in steps of %d: got %q, want %q", tc.in, step, out.String(), tc.want)
			}
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestPrintableKeepsTheError(t *testing.T) {
	t.Parallel()
	p := NewWriter(brokenWriter{})
	_, _ = p.Write([]byte("lost"))
	if err := p.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close returns %v", err)
	}
}
