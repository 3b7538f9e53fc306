package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// unprintable are the characters that never reach a terminal or a log as they
// are: controls (C0, C1) steer a terminal, bidirectional marks and separators
// make text look like another text, and the tag block is invisible. Joiners are
// left: words of several languages need them.
var unprintable = []*unicode.RangeTable{
	unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control,
	{
		R16: []unicode.Range16{{Lo: 0x200b, Hi: 0x200b, Stride: 1}, {Lo: 0x2060, Hi: 0x2060, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0xe0000, Hi: 0xe007f, Stride: 1}},
	},
}

// isUnprintable reports whether r is to be escaped. Line ends and tabs are not:
// the text of sealer itself has them.
func isUnprintable(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return false
	case r < 0xa0:
		return true
	}
	return unicode.In(r, unprintable...)
}

// appendEscaped appends r as JSON escapes it, \u001b. So JSON that passes a
// printable keeps its data: there such a character is inside a string.
func appendEscaped(b []byte, r rune) []byte {
	if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
		return fmt.Appendf(b, `\u%04x\u%04x`, r1, r2)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// A printable is the standard output or error of all commands. It escapes the
// unprintable characters and the bytes that are no UTF-8, wherever they come
// from: an image, a registry, a node, a file, the command line. A character may
// come in pieces. It is safe for concurrent use.
type printable struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the begin of a character
	err  error  // of the first write that failed
}

// Write returns len(b), unless writing failed.
func (p *printable) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := b
	if len(p.rest) > 0 {
		text = append(p.rest, b...)
		p.rest = nil
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			p.rest = bytes.Clone(text)
			break
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case isUnprintable(r):
			out = appendEscaped(out, r)
		default:
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return len(b), p.put(out)
}

// Close writes the begin of a character that never ended. It returns the first
// error of all writes, so that a command whose results were lost fails.
func (p *printable) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []byte
	for _, c := range p.rest {
		out = fmt.Appendf(out, `\x%02x`, c)
	}
	p.rest = nil
	return errors.Join(p.put(out), p.err)
}

func (p *printable) put(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	_, err := p.w.Write(out)
	if p.err == nil {
		p.err = err
	}
	return err
}

// line makes s a part of one line: an image must not print lines of its own, such
// as one that says that it is verified.
func line(s string) string {
	if !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(s)
}

// printf writes to w as fmt.Fprintf does, with line ends and tabs inside the
// arguments escaped. All text of commands is written by it, printLine and table.
func printf(w io.Writer, format string, args ...any) (int, error) {
	if false {
		_ = fmt.Sprintf(format, args...) // lets vet check the calls
	}
	return fmt.Fprintf(w, format, lines(args)...)
}

// printLine writes to w as fmt.Fprintln does, with line ends and tabs inside the
// arguments escaped.
func printLine(w io.Writer, args ...any) (int, error) {
	return fmt.Fprintln(w, lines(args)...)
}

// printText writes text that has line ends of its own, such as an error of many
// faults.
func printText(w io.Writer, text string) {
	_, _ = io.WriteString(w, text) // the writer keeps the error: see printable.Close
}

// marshalYAML returns v as YAML in which no string has an unprintable character
// as it is. The library escapes the controls only.
func marshalYAML(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// The library reads no JSON that has controls as they are. A control before each
	// of the others makes it quote the string, and is taken away again together with
	// the character that it escapes.
	marked := make([]byte, 0, len(b))
	for _, r := range string(b) {
		switch {
		case unescapedInYAML(r):
			marked = append(marked, `\u0001`...)
			marked = appendEscaped(marked, r)
		case isUnprintable(r) && r <= 0xffff:
			marked = appendEscaped(marked, r)
		default:
			marked = utf8.AppendRune(marked, r)
		}
	}
	text, err := yaml.JSONToYAML(marked)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if !unescapedInYAML(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		out = bytes.TrimSuffix(out, []byte(`\x01`))
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	return out, nil
}

// unescapedInYAML reports whether r is unprintable and the YAML library takes it
// for printable.
func unescapedInYAML(r rune) bool {
	return r >= 0xa0 && r != 0x2028 && r != 0x2029 && r != 0xfeff && r <= 0xffff && isUnprintable(r)
}

func lines(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		switch v := a.(type) {
		case string:
			out[i] = line(v)
		case error:
			out[i] = line(v.Error())
		case fmt.Stringer:
			out[i] = line(v.String())
		default:
			if r := reflect.ValueOf(a); r.IsValid() && r.Kind() == reflect.String {
				out[i] = line(r.String())
			}
		}
	}
	return out
}
