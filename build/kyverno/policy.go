package kyverno

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/clusterimage/sealer/registry/tree"
)

// A File is generated text and where it belongs, relative to the directory that
// the caller writes to.
type File struct {
	Path       string
	Content    []byte
	Executable bool
}

//go:embed templates/*.tmpl
var templateFiles embed.FS

// Policy returns the redirect in the language of its engine: one file with the
// Kubernetes objects, or for Containerd one hosts.toml for each source registry,
// below certs.d. Equal redirects give equal bytes. The error is that of
// Validate.
func (d Redirect) Policy() ([]File, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d = d.withDefaults()
	if d.Engine == Containerd {
		return d.hosts()
	}
	selector, err := parseSelector(d.NamespaceSelector)
	if err != nil {
		return nil, err
	}
	b, err := render(string(d.Engine), policyView{Redirect: d, Selector: selector, Limits: d.limits()})
	if err != nil {
		return nil, err
	}
	return []File{{Path: d.Name + ".yaml", Content: b}}, nil
}

// policyView is what the policy templates see.
type policyView struct {
	Redirect
	Selector []requirement
	Limits   []string // source registries, spelled as Kyverno may see them
}

// templates are parsed once, and only where one is rendered: containerd has a
// file for each registry.
var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{"fields": fields, "lower": strings.ToLower, "rule": rule, "indent": indent}).ParseFS(templateFiles, "templates/*.tmpl")
})

// render executes templates/NAME.tmpl.
func render(name string, view any) ([]byte, error) {
	t, err := templates()
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name+".tmpl", view); err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// limits returns the source registries that the redirect is limited to, in
// Kyverno's spellings: it keeps index.docker.io, which images may be written
// with.
func (d Redirect) limits() []string {
	registries := d.registries()
	if slices.Contains(registries, "docker.io") {
		registries = append(registries, "index.docker.io")
	}
	return registries
}

// Keys returns what the images of an exact redirect are looked up by.
func (v policyView) Keys() []string { return v.keys() }

// Targets returns the names under which the private registry serves them.
func (v policyView) Targets() []string { return v.targets() }

// fields are the lists of a pod's spec that hold images.
func fields() []string { return []string{"containers", "initContainers", "ephemeralContainers"} }

// ruleView is what the templates of a ClusterPolicy's rules see.
type ruleView struct {
	View  policyView
	Field string
}

func rule(v policyView, field string) ruleView { return ruleView{v, field} }

// selectorView is a selector at an indentation.
type selectorView struct {
	Indent   string
	Selector []requirement
}

func indent(n int, s []requirement) selectorView { return selectorView{strings.Repeat(" ", n), s} }

const (
	jmesHub      = `(registry == 'docker.io' || registry == 'index.docker.io')`
	jmesLibrary  = jmesHub + ` && !contains(path, '/') && 'library/' || ''`
	jmesSuffix   = `tag && join('', [':', tag]) || '', digest && join('', ['@', digest]) || ''`
	jmesIdentity = `digest && join('', ['@', digest]) || join('', [':', tag])`
	// The same as tree.HostSegment.
	jmesSegment = `registry == 'index.docker.io' && 'docker.io' || trim(regex_replace_all('[^a-z0-9.]+', to_lower(registry), '-'), '-.')`
)

// JMESTarget is the JMESPath expression that makes of an image, as Kyverno
// parses it, its name in the private registry, without the registry.
func (v policyView) JMESTarget() string {
	var head string
	switch {
	case len(v.Prefixes) > 0:
		for _, p := range v.Prefixes {
			is := fmt.Sprintf("to_lower(registry) == '%s'", p.Registry)
			if p.Registry == "docker.io" {
				is = jmesHub
			}
			head += fmt.Sprintf("%s && '%s/' || ", is, p.Path)
		}
		head += "'', "
	case v.Naming == "full":
		head = jmesSegment + ", '/', "
	}
	return "join('', [" + head + jmesLibrary + ", path, " + jmesSuffix + "])"
}

// JMESKey is the expression of an image's key; see Redirect.keys.
func (v policyView) JMESKey() string {
	return "join('', [" + jmesHub + " && 'docker.io' || to_lower(registry), '/', " + jmesLibrary + ", path, " + jmesIdentity + "])"
}

// celReference matches what is an image reference: anything else is left to the
// API server and the kubelet to complain about.
const celReference = `^(([a-zA-Z0-9.-]+|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?(@[a-z0-9]+:[a-fA-F0-9]+)?$`

// CELReference is celReference.
func (v policyView) CELReference() string { return celReference }

// CELHost matches a reference whose first segment is a registry.
func (v policyView) CELHost() string { return `^(localhost|[^/]*[.:A-Z][^/]*)/` }

// CELName is the CEL expression of c's name in the private registry.
func (v policyView) CELName() string {
	switch {
	case len(v.Prefixes) > 0:
		return "variables.prefixes[c.host] + '/' + c.path"
	case v.Naming == "full":
		// The same as tree.HostSegment.
		return "c.host.findAll('[a-z0-9.]+').join('-') + '/' + c.path"
	}
	return "c.path"
}

// hosts returns containerd's configuration for each source registry; see
// docs/hosts.md of github.com/containerd/containerd.
func (d Redirect) hosts() ([]File, error) {
	sources := d.registries()
	if d.Exact {
		sources = nil
		for _, i := range d.Images {
			if host := canonicalHost(i.Reference.Registry); host != d.Registry && d.covers(host) {
				sources = append(sources, host)
			}
		}
		slices.Sort(sources)
		sources = slices.Compact(sources)
	}
	if len(sources) == 0 {
		if d.Naming != "path" {
			return nil, fmt.Errorf("containerd: with registry naming %s the source registries must be named", d.Naming)
		}
		sources = []string{"_default"}
	}
	scheme := "https"
	if d.PlainHTTP {
		scheme = "http"
	}
	views := make([]hostView, 0, len(sources)+2)
	for _, source := range sources {
		view := hostView{Source: source, Server: scheme + "://" + d.Registry, Only: d.DenyOthers, CA: d.CAFile}
		if below := d.below(source); below != "" {
			view.Server, view.Override = view.Server+"/v2/"+below, true
		}
		views = append(views, view)
	}
	if d.DenyOthers { // by a name that RFC 6761 keeps from ever resolving
		views = append(views, hostView{Source: "_default", Server: "https://denied.invalid", Only: true})
	}
	if d.DenyOthers || d.PlainHTTP || d.CAFile != "" {
		views = append(views, hostView{Source: d.Registry, Server: scheme + "://" + d.Registry, Only: true, CA: d.CAFile})
	}
	slices.SortFunc(views, func(a, b hostView) int { return cmp.Compare(a.Source, b.Source) })
	files := make([]File, len(views))
	for i, view := range views {
		b, err := render("hosts", view)
		if err != nil {
			return nil, err
		}
		files[i] = File{Path: path.Join("certs.d", view.Source, "hosts.toml"), Content: b}
	}
	return files, nil
}

// hostView is what the template of a hosts.toml sees.
type hostView struct {
	Source, Server string
	Override       bool // Server has a path
	Only           bool // the source registry itself is never asked
	CA             string
}

// below returns the path under the private registry where the repositories of a
// source registry are; "" is the registry itself.
func (d Redirect) below(source string) string {
	for _, p := range d.Prefixes {
		if p.Registry == source {
			return p.Path
		}
	}
	if d.Naming == "full" {
		return tree.HostSegment(source)
	}
	return ""
}
