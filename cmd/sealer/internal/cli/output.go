package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is how a command prints a list or an object.
type output struct {
	kind    string   // -o
	format  string   // --format, a Go template
	choices []string // what -o takes; the first is the default
}

// flags registers -o and --format. choices begins with the default; json and
// yaml need not be named.
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

// check refuses a value of -o that the command does not know, and a template
// that does not parse. Call it before any work.
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

// unescape makes tabs and line ends of \t and \n, which shells leave alone, in
// the text between the actions of a template.
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

// print writes v in the form chosen: JSON, YAML, the template, or what other
// prints for every other kind. A list is given to the template item by item:
// pass the items as the last argument.
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
			fmt.Fprintln(w, text)
		}
		return nil
	}
	switch o.kind {
	case "json":
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("print json: %w", err)
		}
		_, err = fmt.Fprintf(w, "%s\n", b)
		return err
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		_, err = w.Write(b)
		return err
	}
	return other(w)
}

// render executes t on v, whose fields have the names of Go ({{.Spec.ID}}) or
// those that -o json prints ({{.spec.id}}).
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

// withEmpty adds to printed, which is v as JSON has it, the fields that
// omitempty has left out: a template may name them.
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

// table writes rows in aligned columns.
func table(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, r := range append([][]string{header}, rows...) {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// size prints bytes for people, in the powers of 1000 that disks are sold in.
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
