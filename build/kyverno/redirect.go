package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// An Engine is what rewrites, or answers, a pull.
type Engine string

// The engines; the zero value means ClusterPolicy.
const (
	ClusterPolicy   Engine = "clusterpolicy"   // Kyverno 1.6 and later
	MutatingPolicy  Engine = "mutatingpolicy"  // Kyverno 1.19 and later
	AdmissionPolicy Engine = "admissionpolicy" // Kubernetes' MutatingAdmissionPolicy, no Kyverno
	Containerd      Engine = "containerd"      // hosts.toml files on each node
)

// Engines lists the engines in the order in which help texts name them.
func Engines() []Engine {
	return []Engine{ClusterPolicy, MutatingPolicy, AdmissionPolicy, Containerd}
}

// ParseEngine reads an engine's name; "" is ClusterPolicy.
func ParseEngine(s string) (Engine, error) {
	e := cmp.Or(Engine(s), ClusterPolicy)
	if !slices.Contains(Engines(), e) {
		return "", fmt.Errorf("engine %q: want clusterpolicy, mutatingpolicy, admissionpolicy or containerd", s)
	}
	return e, nil
}

// DefaultName is the name of the policy object when the user gives none.
const DefaultName = "redirect-registry"

// A Redirect says which pulls go to the private registry, and under which name.
// The zero value sends all of them to tree.DefaultRegistry by NamingPath with a
// ClusterPolicy.
type Redirect struct {
	Engine   Engine
	Name     string      // of the policy object; "" is DefaultName
	Registry string      // host[:port]; "" is tree.DefaultRegistry
	Naming   tree.Naming // "" is NamingPath

	// SourceRegistries limits the redirect to images from these; empty means all.
	SourceRegistries []string
	// Prefixes give each source registry its own path below Registry, as
	// pull-through caches have it, instead of Naming. Where there are any, only
	// the registries they name are redirected.
	Prefixes []Prefix
	// NamespaceSelector is a label selector as kubectl writes it; pods in other
	// namespaces are left alone. "" means all namespaces. Containerd knows none.
	NamespaceSelector string

	// Exact limits the redirect to Images, which are what the private registry
	// serves. Without it Images must be empty.
	Exact  bool
	Images []Image
	// DenyOthers refuses what is not among Images. It needs Exact.
	DenyOthers bool

	// AdmissionVersion is the version of admissionregistration.k8s.io of an
	// AdmissionPolicy: "v1" (Kubernetes 1.36, the default), "v1beta1" (1.34) or
	// "v1alpha1" (1.32).
	AdmissionVersion string
	// PlainHTTP makes containerd speak http to Registry. No other engine asks.
	PlainHTTP bool
	// CAFile is a certificate, a file on each node, by which containerd trusts
	// Registry; "" means the system's.
	CAFile string
}

// An Image is an image that the private registry serves.
type Image struct {
	Reference ref.Reference // as pods name it
	// Digests are further digests that the repository serves: that of the tag,
	// and those of the platforms of an index.
	Digests []digest.Digest
}

// A Prefix sends the images of one source registry to a path of their own:
// docker.io/library/nginx with the path "hub" is REGISTRY/hub/library/nginx.
type Prefix struct {
	Registry string // "docker.io"
	Path     string // "hub", "cache/hub"
}

// ParsePrefix reads REGISTRY=PATH.
func ParsePrefix(s string) (Prefix, error) {
	registry, path, ok := strings.Cut(s, "=")
	p := Prefix{Registry: registry, Path: strings.Trim(path, "/")}
	if !ok || registry == "" || !pathName.MatchString(p.Path) {
		return Prefix{}, fmt.Errorf("prefix %q: want REGISTRY=PATH, such as docker.io=docker-hub", s)
	}
	return p, nil
}

var (
	pathName   = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

// Target returns the reference by which the cluster asks for r, and whether the
// redirect sends it there at all; where it does not, r is returned as it is.
func (d Redirect) Target(r ref.Reference) (ref.Reference, bool) {
	d = d.withDefaults()
	host := canonicalHost(r.Registry)
	if host == d.Registry || !d.covers(host) {
		return r, false
	}
	if d.Exact && !slices.ContainsFunc(keysOf(r), func(k string) bool { return slices.Contains(d.keys(), k) }) {
		return r, false
	}
	return d.rename(r), true
}

// rename is Target without the question whether.
func (d Redirect) rename(r ref.Reference) ref.Reference {
	for _, p := range d.Prefixes {
		if p.Registry == canonicalHost(r.Registry) {
			r.Registry, r.Repository = d.Registry, p.Path+"/"+r.Repository
			return r
		}
	}
	return d.Naming.Target(d.Registry, r)
}

// covers reports whether images of host are redirected.
func (d Redirect) covers(host string) bool {
	registries := d.registries()
	return len(registries) == 0 || slices.Contains(registries, host)
}

// registries returns the source registries that the redirect is limited to,
// sorted; none means all.
func (d Redirect) registries() []string {
	var all []string
	switch {
	case len(d.SourceRegistries) > 0:
		for _, r := range d.SourceRegistries {
			all = append(all, canonicalHost(r))
		}
	default:
		for _, p := range d.Prefixes {
			all = append(all, p.Registry)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// canonicalHost is how the policies compare hosts: in lower case, and with one
// name for Docker Hub.
func canonicalHost(host string) string {
	if host = strings.ToLower(host); host == "index.docker.io" {
		return ref.DefaultRegistry
	}
	return host
}

// keys returns what the policies look images up by: host/repository:tag and
// host/repository@digest of each of Images that is not in Registry already,
// sorted.
func (d Redirect) keys() []string {
	var keys []string
	for _, i := range d.Images {
		if host := canonicalHost(i.Reference.Registry); host != d.Registry && d.covers(host) {
			keys = append(keys, i.keys()...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// targets returns the keys under which the private registry serves Images.
func (d Redirect) targets() []string {
	var keys []string
	for _, i := range d.Images {
		i.Reference = d.rename(i.Reference)
		keys = append(keys, i.keys()...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (i Image) keys() []string {
	name := canonicalHost(i.Reference.Registry) + "/" + i.Reference.Repository
	var keys []string
	if i.Reference.Tag != "" {
		keys = append(keys, name+":"+i.Reference.Tag)
	}
	for _, d := range append([]digest.Digest{i.Reference.Digest}, i.Digests...) {
		if d != "" {
			keys = append(keys, name+"@"+d.String())
		}
	}
	return keys
}

// keysOf returns the one key by which a pod's reference is looked up: runtimes
// ignore the tag where there is a digest.
func keysOf(r ref.Reference) []string {
	if r.Digest != "" {
		r.Tag = ""
	}
	return Image{Reference: r}.keys()
}

func (d Redirect) withDefaults() Redirect {
	d.Engine = cmp.Or(d.Engine, ClusterPolicy)
	d.Name = cmp.Or(d.Name, DefaultName)
	d.Registry = canonicalHost(cmp.Or(d.Registry, tree.DefaultRegistry))
	d.Naming = cmp.Or(d.Naming, tree.NamingPath)
	d.AdmissionVersion = cmp.Or(d.AdmissionVersion, "v1")
	prefixes := slices.Clone(d.Prefixes)
	for i := range prefixes {
		prefixes[i].Registry = canonicalHost(prefixes[i].Registry)
	}
	slices.SortFunc(prefixes, func(a, b Prefix) int { return cmp.Compare(a.Registry, b.Registry) })
	d.Prefixes = prefixes
	return d
}

// Validate reports every fault of d, joined.
func (d Redirect) Validate() error {
	d = d.withDefaults()
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err := ParseEngine(string(d.Engine))
	add(err)
	_, err = tree.ParseNaming(string(d.Naming))
	add(err)
	_, err = parseSelector(d.NamespaceSelector)
	add(err)
	if !objectName.MatchString(d.Name) || len(d.Name) > 253 {
		add(fmt.Errorf("policy name %q: want lower case letters, digits, - and ., 253 at the most", d.Name))
	}
	add(checkHost("registry", d.Registry))
	for _, r := range d.SourceRegistries {
		add(checkHost("source registry", canonicalHost(r)))
	}
	add(d.checkPrefixes())
	add(d.checkImages())
	if !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, d.AdmissionVersion) {
		add(fmt.Errorf("admission version %q: want v1, v1beta1 or v1alpha1", d.AdmissionVersion))
	}
	if d.Engine == Containerd && d.NamespaceSelector != "" {
		add(errors.New("namespace selector: containerd does not know namespaces"))
	}
	return errors.Join(errs...)
}

func checkHost(what, s string) error {
	if err := ref.CheckHost(s); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	return nil
}

func (d Redirect) checkPrefixes() error {
	var errs []error
	for i, p := range d.Prefixes {
		if err := checkHost("prefix: registry", p.Registry); err != nil {
			errs = append(errs, err)
		}
		if !pathName.MatchString(p.Path) {
			errs = append(errs, fmt.Errorf("prefix %s=%s: the path is no repository path", p.Registry, p.Path))
		}
		for _, q := range d.Prefixes[:i] {
			switch {
			case p.Registry == q.Registry:
				errs = append(errs, fmt.Errorf("prefixes %s=%s and %s=%s: one registry, two paths", q.Registry, q.Path, p.Registry, p.Path))
			case strings.HasPrefix(p.Path+"/", q.Path+"/"), strings.HasPrefix(q.Path+"/", p.Path+"/"):
				errs = append(errs, fmt.Errorf("prefixes %s=%s and %s=%s overlap: two images could get one name", q.Registry, q.Path, p.Registry, p.Path))
			}
		}
	}
	for _, r := range d.SourceRegistries {
		if len(d.Prefixes) > 0 && !slices.ContainsFunc(d.Prefixes, func(p Prefix) bool { return p.Registry == canonicalHost(r) }) {
			errs = append(errs, fmt.Errorf("source registry %s: it has no prefix, the others have", r))
		}
	}
	return errors.Join(errs...)
}

func (d Redirect) checkImages() error {
	switch {
	case !d.Exact && len(d.Images) > 0:
		return errors.New("images are given for a redirect that is not exact")
	case d.DenyOthers && !d.Exact:
		return errors.New("deny others: it needs the list of images")
	case d.Exact && len(d.keys()) == 0:
		return errors.New("none of the images is redirected: the ClusterImage holds none from a registry that the redirect covers")
	}
	return d.checkCollisions()
}

// checkCollisions reports images that fall on one name and are not known to be
// equal.
func (d Redirect) checkCollisions() error {
	type owner struct {
		image ref.Reference
		ids   []digest.Digest
	}
	var errs []error
	taken := map[string]owner{}
	for _, i := range d.Images {
		if i.Reference.Tag == "" {
			continue // what has a digest cannot be mistaken
		}
		target := d.rename(i.Reference)
		target.Digest = ""
		mine := owner{i.Reference, append([]digest.Digest{i.Reference.Digest}, i.Digests...)}
		other, ok := taken[target.String()]
		if !ok || other.image.Name() == i.Reference.Name() {
			taken[target.String()] = mine
			continue
		}
		equal := slices.ContainsFunc(mine.ids, func(x digest.Digest) bool { return x != "" && slices.Contains(other.ids, x) })
		if !equal {
			errs = append(errs, fmt.Errorf("%s and %s both become %s; --registry-naming=full keeps them apart", other.image, i.Reference, target))
		}
	}
	return errors.Join(errs...)
}
