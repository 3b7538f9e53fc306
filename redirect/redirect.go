package redirect

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

// An Engine is the component of a cluster that redirects a pull.
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

// A Redirect selects the pulls that go to the private registry, and their names
// there. The zero value is a ClusterPolicy that sends all pulls to
// ref.DefaultPrivate by NamingPath. A Redirect is not changed by its methods.
type Redirect struct {
	Engine          Engine
	Name            string      // of the policy object; "" is DefaultName
	PrivateRegistry string      // host[:port]; "" is ref.DefaultPrivate
	Naming          tree.Naming // "" is NamingPath
	// OwnNames are further names by which nodes ask for PrivateRegistry, such as
	// that in the cluster's own configuration. Containerd sends them there; other
	// engines ignore them.
	OwnNames []string

	// SourceRegistries limits the redirect to images from these registries;
	// empty means all.
	SourceRegistries []string
	// Prefixes replace Naming: each source registry gets a path of its own below
	// PrivateRegistry, as in a pull-through cache. If there are any, only the registries
	// in Prefixes are redirected.
	Prefixes []Prefix
	// NamespaceSelector is a label selector in kubectl's syntax; pods in other
	// namespaces are left alone. "" means all namespaces. Containerd has no
	// namespaces: Validate rejects a selector for it.
	NamespaceSelector string

	// Exact limits the redirect to Images, the images that the private registry
	// serves. Without Exact, Images must be empty.
	Exact  bool
	Images []Image
	// DenyOthers refuses all images but Images. It needs Exact.
	DenyOthers bool

	// AdmissionVersion is the version of admissionregistration.k8s.io of an
	// AdmissionPolicy: "v1" (Kubernetes 1.36, the default), "v1beta1" (1.34) or
	// "v1alpha1" (1.32).
	AdmissionVersion string
	// PlainHTTP makes containerd speak http to Registry; other engines ignore it.
	PlainHTTP bool
	// CAFile is the path, on each node, of the certificate by which containerd
	// trusts Registry; "" means the node's own certificates.
	CAFile string
}

// An Image is an image that the private registry serves.
type Image struct {
	Reference ref.Reference // as pods name it
	// Digests are further digests that the repository serves: the tag's, and for
	// an index those of its platforms.
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

// Target returns the reference by which the cluster pulls r. If the redirect
// does not cover r, Target returns r unchanged and false.
func (d Redirect) Target(r ref.Reference) (ref.Reference, bool) {
	d = d.WithDefaults()
	host := canonicalHost(r.Registry)
	if host == d.PrivateRegistry || !d.covers(host) {
		return r, false
	}
	if d.Exact && !slices.ContainsFunc(keysOf(r), func(k string) bool { return slices.Contains(d.keys(), k) }) {
		return r, false
	}
	return d.Rename(r), true
}

// Rename returns r's name in the private registry, whether or not the redirect
// covers r.
func (d Redirect) Rename(r ref.Reference) ref.Reference {
	d = d.WithDefaults()
	if path, ok := d.PathOf(r.Registry); ok {
		r.Registry, r.Repository = d.PrivateRegistry, path+"/"+r.Repository
		return r
	}
	return d.Naming.Target(d.PrivateRegistry, r)
}

// PathOf returns the path that Prefixes give the images of a source registry,
// and whether Prefixes name that registry.
func (d Redirect) PathOf(registry string) (path string, ok bool) {
	for _, p := range d.Prefixes {
		if canonicalHost(p.Registry) == canonicalHost(registry) {
			return p.Path, true
		}
	}
	return "", false
}

// covers reports whether images of host are redirected.
func (d Redirect) covers(host string) bool {
	registries := d.registries()
	return len(registries) == 0 || slices.Contains(registries, host)
}

// registries returns, sorted, the source registries that the redirect is limited
// to; an empty list means all.
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

// canonicalHost returns host in the form that the policies compare: in lower
// case, and with one name for Docker Hub.
func canonicalHost(host string) string {
	if host = strings.ToLower(host); host == "index.docker.io" {
		return ref.DockerHub
	}
	return host
}

// keys returns, sorted, the keys by which the policies look images up:
// host/repository:tag and host/repository@digest of each of Images. Images that
// are named by Registry already have none.
func (d Redirect) keys() []string {
	var keys []string
	for _, i := range d.Images {
		if host := canonicalHost(i.Reference.Registry); host != d.PrivateRegistry && d.covers(host) {
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
		i.Reference = d.Rename(i.Reference)
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

// keysOf returns the key by which a pod's reference is looked up. A digest wins
// over a tag, as in the container runtimes.
func keysOf(r ref.Reference) []string {
	if r.Digest != "" {
		r.Tag = ""
	}
	return Image{Reference: r}.keys()
}

// WithDefaults returns d with the zero fields set to their defaults and all hosts
// in canonical form.
func (d Redirect) WithDefaults() Redirect {
	d.Engine = cmp.Or(d.Engine, ClusterPolicy)
	d.Name = cmp.Or(d.Name, DefaultName)
	d.PrivateRegistry = canonicalHost(cmp.Or(d.PrivateRegistry, ref.DefaultPrivate))
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

// Validate reports all faults of d, joined.
func (d Redirect) Validate() error {
	d = d.WithDefaults()
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
	add(checkHost("registry", d.PrivateRegistry))
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

func checkHost(role, s string) error {
	if err := ref.CheckHost(s); err != nil {
		return fmt.Errorf("%s %w", role, err)
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
	return d.CheckCollisions()
}

// CheckCollisions reports pairs of Images that get one name in the private
// registry, unless they share a digest.
func (d Redirect) CheckCollisions() error {
	type owner struct {
		image ref.Reference
		ids   []digest.Digest
	}
	var errs []error
	taken := map[string]owner{}
	for _, i := range d.Images {
		if i.Reference.Tag == "" {
			continue // pulled by digest: a shared name does no harm
		}
		target := d.Rename(i.Reference)
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
