package spec

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Merge lays files over each other, the one that counts most first: flags, the
// Clusterfile, the image's etc/Clusterfile, Defaults. The files are not
// changed.
//
// A single value is the first that is set. cmd, appNames and hosts are taken
// whole from the first file that has them; where that file's hosts have no
// master, the masters below are kept. env goes key by key, ssh, registry and
// the like field by field. Configs and plugins go by name. Documents of kubeadm
// are kept all, in order: cluster/kubeadm merges them as trees.
func Merge(files ...*File) *File {
	out := &File{places: map[string]place{}}
	for _, low := range files {
		if low != nil {
			out.add(low)
		}
	}
	return out
}

// add lays f over low.
func (f *File) add(low *File) {
	if f.name == "" {
		f.name = low.name
	}
	f.Cluster = f.Cluster.over(low.Cluster)
	f.Configs = byName(f.Configs, low.Configs, func(c Config) string { return c.Name })
	f.Plugins = byName(f.Plugins, low.Plugins, func(p Plugin) string { return p.Name })
	for _, d := range low.Kubeadm { // one that says the same again adds nothing
		if !slices.ContainsFunc(f.Kubeadm, func(o Document) bool { return reflect.DeepEqual(o, d) }) {
			f.Kubeadm = append(f.Kubeadm, d)
		}
	}
	f.Warnings = append(f.Warnings, low.Warnings...)
	f.Application = f.Application.over(low.Application)
	if low.Preflight != nil {
		f.Preflight = f.Preflight.over(*low.Preflight)
	}
	for k, p := range low.places {
		if _, ok := f.places[k]; !ok {
			f.places[k] = p
		}
	}
}

func (c Cluster) over(low Cluster) Cluster {
	fill(&c.Name, low.Name)
	fill(&c.Image, low.Image)
	fill(&c.DataRoot, low.DataRoot)
	fill(&c.ContainerRuntime.Type, low.ContainerRuntime.Type)
	fill(&c.APIServer.Domain, low.APIServer.Domain)
	fill(&c.APIServer.Balancer, low.APIServer.Balancer)
	fill(&c.APIServer.Endpoint, low.APIServer.Endpoint)
	fill(&c.Rollout.Workers, low.Rollout.Workers)
	fill(&c.Rollout.DrainTimeout, low.Rollout.DrainTimeout)
	fill(&c.Rollout.Pause, low.Rollout.Pause)
	fill(&c.Distribution.Mode, low.Distribution.Mode)
	fill(&c.Distribution.Rate, low.Distribution.Rate)
	c.Annotations = mergeMap(c.Annotations, low.Annotations)
	c.Labels = mergeMap(c.Labels, low.Labels)
	c.Env = mergeEnv(c.Env, low.Env)
	c.CmdArgs = mergeEnv(c.CmdArgs, low.CmdArgs)
	fillList(&c.Cmd, low.Cmd)
	fillList(&c.AppNames, low.AppNames)
	c.Hosts = mergeHosts(c.Hosts, low.Hosts)
	c.HostAliases = byName(c.HostAliases, low.HostAliases, func(a HostAlias) string { return a.IP })
	c.SSH = c.SSH.over(low.SSH)
	c.Registry = c.Registry.over(low.Registry)
	return c
}

func (r Registry) over(low Registry) Registry {
	if r.External == nil {
		r.External = low.External
	}
	if low.Local == nil {
		return r
	}
	var l LocalRegistry
	if r.Local != nil {
		l = *r.Local
	}
	fill(&l.Domain, low.Local.Domain)
	fill(&l.Port, low.Local.Port)
	fill(&l.HA, low.Local.HA)
	fill(&l.Insecure, low.Local.Insecure)
	if l.Username == "" && l.Password.IsZero() {
		l.Username, l.Password = low.Local.Username, low.Local.Password
	}
	san := &l.Cert.SubjectAltName
	fillList(&san.DNSNames, low.Local.Cert.SubjectAltName.DNSNames)
	fillList(&san.IPs, low.Local.Cert.SubjectAltName.IPs)
	r.Local = &l
	return r
}

func (a *Application) over(low *Application) *Application {
	if a == nil || low == nil {
		if a == nil {
			a = low
		}
		return a
	}
	out := *a
	fill(&out.Name, low.Name)
	if len(out.Cmds) == 0 && len(out.LaunchApps) == 0 {
		out.Cmds, out.LaunchApps = low.Cmds, low.LaunchApps
	}
	out.Configs = byName(out.Configs, low.Configs, func(c AppConfig) string { return c.Name })
	return &out
}

func (p *Preflight) over(low Preflight) *Preflight {
	if p == nil {
		return &low
	}
	out := *p
	fill(&out.Name, low.Name)
	out.Thresholds = mergeMap(out.Thresholds, low.Thresholds)
	out.Skip = byName(out.Skip, low.Skip, func(s Skip) string { return s.Check })
	return &out
}

// mergeHosts returns high, and low's masters before it where high has none.
func mergeHosts(high, low []Host) []Host {
	if len(high) == 0 {
		return slices.Clone(low)
	}
	if slices.ContainsFunc(high, Host.master) {
		return high
	}
	var out []Host
	for _, h := range low {
		if h.master() {
			out = append(out, h)
		}
	}
	return append(out, high...)
}

func (h Host) master() bool { return slices.Contains(Roles(h.Roles), RoleMaster) }

func fillList[T any](v *[]T, low []T) {
	if len(*v) == 0 {
		*v = slices.Clone(low)
	}
}

func mergeMap(high, low map[string]string) map[string]string {
	if len(high)+len(low) == 0 {
		return nil
	}
	out := maps.Clone(low)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, high)
	return out
}

// mergeEnv returns low's lines whose key high does not set, then high's.
func mergeEnv(high, low []string) []string {
	set := map[string]bool{}
	for _, e := range high {
		k, _, _ := strings.Cut(e, "=")
		set[k] = true
	}
	var out []string
	for _, e := range low {
		if k, _, _ := strings.Cut(e, "="); !set[k] {
			out = append(out, e)
		}
	}
	return append(out, high...)
}

// byName returns high's items, then low's whose name high does not have.
func byName[T any](high, low []T, name func(T) string) []T {
	out := slices.Clone(high)
	for _, l := range low {
		if !slices.ContainsFunc(high, func(h T) bool { return name(h) == name(l) }) {
			out = append(out, l)
		}
	}
	return out
}
