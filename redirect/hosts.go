package redirect

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/clusterimage/sealer/registry/tree"
)

// hosts returns containerd's configuration for each source registry. Format:
// docs/hosts.md of github.com/containerd/containerd.
func (d Redirect) hosts() ([]File, error) {
	sources := d.sources()
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
	own := slices.DeleteFunc(slices.Clone(d.OwnNames), func(s string) bool { return s == d.PrivateRegistry })
	for _, source := range sources {
		if slices.Contains(own, source) {
			continue
		}
		view := hostView{Source: source, Server: scheme + "://" + d.PrivateRegistry, Only: d.DenyOthers, CA: d.CAFile}
		if below := d.below(source); below != "" {
			view.Server, view.Override = view.Server+"/v2/"+below, true
		}
		views = append(views, view)
	}
	if d.DenyOthers { // RFC 6761: names below "invalid" never resolve
		views = append(views, hostView{Source: "_default", Server: "https://denied.invalid", Only: true})
	}
	if d.DenyOthers || d.PlainHTTP || d.CAFile != "" {
		own = append(own, d.PrivateRegistry)
	}
	for _, name := range own {
		views = append(views, hostView{Source: name, Server: scheme + "://" + d.PrivateRegistry, Only: true, CA: d.CAFile})
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

// sources returns, sorted, the source registries that get a file of their own.
func (d Redirect) sources() []string {
	if !d.Exact {
		return d.registries()
	}
	var sources []string
	for _, i := range d.Images {
		if host := canonicalHost(i.Reference.Registry); host != d.PrivateRegistry && d.covers(host) {
			sources = append(sources, host)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// hostView is the data of the template of a hosts.toml.
type hostView struct {
	Source, Server string
	Override       bool // Server has a path
	Only           bool // the source registry itself is never asked
	CA             string
}

// below returns the path of a source registry's repositories in the private
// registry; "" is the root.
func (d Redirect) below(source string) string {
	if path, ok := d.PathOf(source); ok {
		return path
	}
	if d.Naming == "full" {
		return tree.HostSegment(source)
	}
	return ""
}
