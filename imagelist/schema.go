package imagelist

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// A schemaError says which values a chart's values.schema.json does not allow.
type schemaError struct{ text string }

func (e schemaError) Error() string { return "the values do not fit values.schema.json: " + e.text }

// errElsewhere says that a schema refers to another that is not in its file.
var errElsewhere = errors.New("a schema elsewhere, which is not fetched")

// checkSchema checks the values of a chart and of its dependencies as helm
// install does, but for one thing: Helm fetches the URLs, and reads the files
// of this machine, that a schema refers to. Here a schema with such a reference
// is not applied, and is returned in skipped as "chart: URL". The error is a
// schemaError with the text for every value.
func checkSchema(ch *chart.Chart, values map[string]any) (skipped []string, err error) {
	var bad []string
	var walk func(ch *chart.Chart, values map[string]any)
	walk = func(ch *chart.Chart, values map[string]any) {
		err := checkOne(ch.Schema, values)
		switch {
		case errors.Is(err, errElsewhere):
			skipped = append(skipped, ch.Name()+": "+err.Error())
		case err != nil:
			bad = append(bad, ch.Name()+": "+err.Error())
		}
		for _, d := range ch.Dependencies() {
			switch sub := values[d.Name()].(type) {
			case nil:
			case map[string]any:
				walk(d, sub)
			case chartutil.Values:
				walk(d, sub)
			default:
				bad = append(bad, fmt.Sprintf("%s: want a map of values, got %T", d.Name(), sub))
			}
		}
	}
	walk(ch, values)
	if len(bad) > 0 {
		err = schemaError{strings.Join(bad, "; ")}
	}
	return skipped, err
}

// here loads no schema but those that the compiler brings itself, and notes
// the last one asked for. An unknown urn: allows every value, as in Helm.
type here struct{ elsewhere string }

func (h *here) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil
	}
	h.elsewhere = url
	return nil, errElsewhere
}

func checkOne(schema []byte, values map[string]any) (err error) {
	if len(schema) == 0 {
		return nil
	}
	defer func() {
		if r := recover(); r != nil { // the compiler panics on some broken schemas
			err = fmt.Errorf("values.schema.json: %v", r)
		}
	}()
	const name = "file:///values.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	c := jsonschema.NewCompiler()
	h := &here{}
	c.UseLoader(h)
	if err := c.AddResource(name, doc); err != nil && h.elsewhere == "" {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	s, err := c.Compile(name)
	if h.elsewhere != "" {
		return fmt.Errorf("%s: %w", h.elsewhere, errElsewhere)
	}
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if err := s.Validate(values); err != nil {
		lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
		if len(lines) > 1 {
			lines = lines[1:] // the first names the schema
		}
		for i, l := range lines {
			lines[i] = strings.TrimLeft(l, " -")
		}
		return errors.New(strings.Join(lines, ", "))
	}
	return nil
}
