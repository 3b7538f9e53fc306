package redirect

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
)

// A File is generated text, with a path relative to the directory that the
// caller writes to.
type File struct {
	Path       string
	Content    []byte
	Executable bool
}

//go:embed templates/*.tmpl
var templateFiles embed.FS

// Policy returns the redirect in the language of its engine: one file of
// Kubernetes objects, or for Containerd a certs.d/HOST/hosts.toml for each source
// registry. Equal redirects give equal bytes. The errors are those of Validate.
func (d Redirect) Policy() ([]File, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d = d.WithDefaults()
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

// policyView is the data of the policy templates.
type policyView struct {
	Redirect
	Selector []requirement
	Limits   []string // source registries, in each spelling that Kyverno may see
}

// templates parses the templates at the first use, and once: containerd's are
// rendered for each registry.
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

// limits returns the source registries that the redirect is limited to, with
// index.docker.io beside docker.io: Kyverno keeps whichever the pod was written
// with.
func (d Redirect) limits() []string {
	registries := d.registries()
	if slices.Contains(registries, "docker.io") {
		registries = append(registries, "index.docker.io")
	}
	return registries
}

// Keys returns the keys by which an exact redirect looks images up.
func (v policyView) Keys() []string { return v.keys() }

// Targets returns the names under which the private registry serves the images.
func (v policyView) Targets() []string { return v.targets() }

// fields returns the lists of a pod's spec that hold images.
func fields() []string { return []string{"containers", "initContainers", "ephemeralContainers"} }

// ruleView is the data of the templates of a ClusterPolicy's rules.
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

// JMESTarget returns the JMESPath expression that turns an image, as Kyverno
// parsed it, into its repository and tag or digest in the private registry.
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

// JMESKey returns the JMESPath expression of an image's key; see Redirect.keys.
func (v policyView) JMESKey() string {
	return "join('', [" + jmesHub + " && 'docker.io' || to_lower(registry), '/', " + jmesLibrary + ", path, " + jmesIdentity + "])"
}

// celReference matches an image reference. Other strings are left unchanged: the
// API server or the kubelet reports them.
const celReference = `^(([a-zA-Z0-9.-]+|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?(@[a-z0-9]+:[a-fA-F0-9]+)?$`

// CELReference returns celReference to the templates.
func (v policyView) CELReference() string { return celReference }

// CELHost returns the expression that matches a reference with a registry.
func (v policyView) CELHost() string { return `^(localhost|[^/]*[.:A-Z][^/]*)/` }

// CELName returns the CEL expression of c's name in the private registry.
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
