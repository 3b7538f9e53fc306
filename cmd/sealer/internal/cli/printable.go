package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/printable"
)

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
	_, _ = io.WriteString(w, text) // the writer keeps the error: see printable.Writer
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
			marked = printable.AppendEscaped(marked, r)
		case printable.Escapes(r) && r <= 0xffff:
			marked = printable.AppendEscaped(marked, r)
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
	return r >= 0xa0 && r != 0x2028 && r != 0x2029 && r != 0xfeff && r <= 0xffff && printable.Escapes(r)
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
