package imagelist

import (
	"context"
	"strings"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Helm's engine has no way to stop a rendering. Each turn of a loop and each call
// of a helper therefore asks for an object of the cluster first (tick), and the
// answer is an error once the rendering is to stop. The function lookup is the only
// one of the engine that asks its caller for anything.
const tick = "{{- $sealerTick := lookup `sealer` `tick` `` `` }}"

// noCluster answers each lookup as a cluster without any object does, which is
// what helm template renders with, until stop is set.
type noCluster struct{ stop *atomic.Bool }

func (c noCluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if c.stop.Load() {
		return nil, false, errRunaway
	}
	return noObjects{}, true, nil
}

type noObjects struct {
	dynamic.NamespaceableResourceInterface // nil: the engine calls no other method
}

func (n noObjects) Namespace(string) dynamic.ResourceInterface { return n }

func (noObjects) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

func (noObjects) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// renderStoppable renders a chart until stop is set. The templates of the chart
// are those that it had when it returns.
func renderStoppable(ch *chart.Chart, values chartutil.Values, stop *atomic.Bool) (map[string]string, error) {
	if v, ok := values["Values"].(chartutil.Values); ok {
		values["Values"] = tickValues(v)
	}
	defer tickTemplates(ch)()
	out, err := engine.RenderWithClientProvider(ch, values, noCluster{stop})
	for name, text := range out {
		if strings.Contains(text, "$sealerTick") { // a value that is printed, not rendered
			out[name] = withoutTicks(text)
		}
	}
	return out, err
}

// tickTemplates puts ticks into the templates of a chart, and returns a function
// that takes them out.
func tickTemplates(ch *chart.Chart) (restore func()) {
	kept := ch.Templates
	ticked := make([]*chart.File, len(kept))
	for i, t := range kept {
		ticked[i] = t
		if text := withTicks(string(t.Data)); len(text) > len(t.Data) {
			ticked[i] = &chart.File{Name: t.Name, Data: []byte(text)}
		}
	}
	ch.Templates = ticked
	var below []func()
	for _, d := range ch.Dependencies() {
		below = append(below, tickTemplates(d))
	}
	return func() {
		ch.Templates = kept
		for _, f := range below {
			f()
		}
	}
}

// withTicks puts a tick behind each action that begins a loop or a definition. It
// trims the space behind it where the action does.
func withTicks(text string) string {
	if !strings.Contains(text, "range") && !strings.Contains(text, "define") && !strings.Contains(text, "block") {
		return text
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "{{")
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := i + actionLength(text[i:])
		a := text[i:end]
		b.WriteString(text[:end])
		text = text[end:]
		word, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(a[2:], "-"), " \t\r\n")+" ", " ")
		switch word {
		case "range", "define", "block":
			t := strings.Replace(tick, "{{-", "{{", 1) // the space before it stays
			if strings.HasSuffix(a, "-}}") {
				t = strings.TrimSuffix(t, "}}") + "-}}"
			}
			b.WriteString(t)
		}
	}
}

func withoutTicks(text string) string {
	t := strings.TrimSuffix(strings.Replace(tick, "{{-", "{{", 1), "}}")
	return strings.ReplaceAll(strings.ReplaceAll(text, t+"-}}", ""), t+"}}", "")
}

// actionLength is the length of the action that a text begins with, its strings
// and comments read over.
func actionLength(text string) int {
	at := 2
	if rest, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(text[2:], "-"), " \t\r\n"), "/*"); ok {
		if _, behind, ok := strings.Cut(rest, "*/"); ok {
			at = len(text) - len(behind)
		}
	}
	for at < len(text) {
		switch c := text[at]; {
		case strings.HasPrefix(text[at:], "}}"):
			return at + 2
		case c == '`':
			i := strings.IndexByte(text[at+1:], '`')
			if i < 0 {
				return len(text)
			}
			at += i + 2
		case c == '"' || c == '\'':
			for at++; at < len(text) && text[at] != c && text[at] != '\n'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			at++
		default:
			at++
		}
	}
	return len(text)
}

// tickValues returns a copy of values with ticks in the texts that a chart may
// render (tpl).
func tickValues(v any) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "{{") {
			return withTicks(v)
		}
	case chartutil.Values:
		return chartutil.Values(tickMap(v))
	case map[string]any:
		return tickMap(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = tickValues(x)
		}
		return out
	}
	return v
}

func tickMap(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for key, x := range v {
		out[key] = tickValues(x)
	}
	return out
}
