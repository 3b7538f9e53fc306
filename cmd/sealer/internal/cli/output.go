package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

// output is the form in which a command prints a list or an object.
type output struct {
	kind    string   // -o
	format  string   // --format, a Go template
	choices []string // values of -o; the first is the default
}

// flags registers -o and --format. choices begins with the default, and need not
// name json and yaml.
func (o *output) flags(cmd *cobra.Command, choices ...string) {
	o.choices = choices
	for _, c := range []string{"json", "yaml"} {
		if choices[0] != c {
			o.choices = append(o.choices, c)
		}
	}
	cmd.Flags().StringVarP(&o.kind, "output", "o", choices[0], "output: "+strings.Join(o.choices, ", "))
	cmd.Flags().StringVar(&o.format, "format", "", "print with this Go template instead, over what -o json prints: {{.name}}")
}

// check refuses an unknown value of -o and a template that does not parse. Call
// it before any work.
func (o *output) check() error {
	if o.format == "json" || o.format == "yaml" {
		o.kind, o.format = o.format, ""
	}
	if o.format != "" {
		if _, err := o.template(); err != nil {
			return usageError{err}
		}
		return nil
	}
	if slices.Contains(o.choices, o.kind) {
		return nil
	}
	return usagef("-o %q: want one of %s", o.kind, strings.Join(o.choices, ", "))
}

func (o *output) template() (*template.Template, error) {
	t, err := template.New("format").Funcs(template.FuncMap{
		"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"join": strings.Join,
	}).Parse(unescape(o.format))
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	return t, nil
}

// unescape replaces
//
//	and
//
// , which shells do not expand, by tabs and line ends in the text between the
// actions of a template.
func unescape(template string) string {
	escapes := strings.NewReplacer(`\t`, "\t", `\n`, "\n")
	parts := strings.Split(template, "{{")
	for i, p := range parts {
		if end := strings.Index(p, "}}"); i == 0 || end >= 0 {
			parts[i] = p[:max(end, 0)] + escapes.Replace(p[max(end, 0):])
		}
	}
	return strings.Join(parts, "{{")
}

// print writes v as JSON, as YAML, with the template, or with other for every
// other kind. A template runs once for each item of a list: pass the items as the
// last argument.
func (o *output) print(w io.Writer, v any, other func(w io.Writer) error, items ...any) error {
	if o.format != "" {
		t, err := o.template()
		if err != nil {
			return usageError{err}
		}
		if items == nil {
			items = []any{v}
		}
		for _, it := range items {
			text, err := render(t, it)
			if err != nil {
				return usageError{fmt.Errorf("--format: %w", err)}
			}
			if _, err := io.WriteString(w, text+"\n"); err != nil { // line ends may be the template's
				return err
			}
		}
		return nil
	}
	switch o.kind {
	case "json":
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("print json: %w", err)
		}
		_, err = printf(w, "%s\n", b)
		return err
	case "yaml":
		b, err := marshalYAML(v)
		if err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		_, err = w.Write(b)
		return err
	}
	return other(w)
}

// render executes t on v. The template may use the Go names of the fields
// ({{.Spec.ID}}) or their JSON names ({{.spec.id}}).
func render(t *template.Template, v any) (string, error) {
	var b strings.Builder
	if t.Execute(&b, v) == nil {
		return b.String(), nil
	}
	printed, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var fields any
	if err := json.Unmarshal(printed, &fields); err != nil {
		return "", err
	}
	fields = withEmpty(reflect.ValueOf(v), fields)
	b.Reset()
	err = t.Option("missingkey=error").Execute(&b, fields)
	return b.String(), err
}

// withEmpty adds to printed, which is v decoded from JSON, the fields that
// omitempty has left out, because a template may name them.
func withEmpty(v reflect.Value, printed any) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch p := printed.(type) {
	case map[string]any:
		if v.Kind() != reflect.Struct {
			return printed
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			value, there := p[name]
			switch {
			case f.Anonymous && name == "":
				withEmpty(v.Field(i), p)
			case there:
				p[name] = withEmpty(v.Field(i), value)
			case name != "" && name != "-":
				p[name] = v.Field(i).Interface()
			}
		}
	case []any:
		if v.Kind() == reflect.Slice && v.Len() == len(p) {
			for i := range p {
				p[i] = withEmpty(v.Index(i), p[i])
			}
		}
	}
	return printed
}

// size prints bytes in powers of 1000, as disks are labelled.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}
