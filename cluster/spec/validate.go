package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	dnsName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelRE  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	envKeyRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	rateRE   = regexp.MustCompile(`^([1-9][0-9]{0,8})([KMG]?)(i?)B?$`)
	pacingRE = regexp.MustCompile(`^[1-9][0-9]*%?$`)
)

// labelKey reports whether s is a key of a Kubernetes label: [prefix/]name.
func labelKey(s string) bool {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "", s
	}
	return (!ok || dnsName.MatchString(prefix) && len(prefix) <= 253) && len(name) <= 63 && labelRE.MatchString(name)
}

func labelValue(s string) bool {
	return s == "" || len(s) <= 63 && labelRE.MatchString(s)
}

// A validator collects faults with the places of a File.
type validator struct {
	faults
	f   *File
	doc string // the document's key in places
}

// at adds a fault about path of the current document. Where only a part of the
// path is known, that part's line is said.
func (v *validator) at(path, fix, format string, args ...any) {
	fault := &Fault{File: v.f.name, Fix: fix, Msg: fmt.Sprintf(format, args...)}
	for {
		if p, ok := v.f.places[v.doc+":"+path]; ok {
			fault.File, fault.Line = p.file, p.line
			break
		}
		i := strings.LastIndexAny(path, ".[")
		if path == "" {
			break
		}
		path = path[:max(i, 0)]
	}
	if fault.File == "" {
		fault.File = "Clusterfile"
	}
	v.list = append(v.list, fault)
}

// Validate judges a file as a whole, after Merge. Faults are *Fault, joined.
func Validate(f *File) error {
	v := &validator{f: f, doc: KindCluster}
	v.cluster(&f.Cluster)
	v.configs(f.Configs)
	v.plugins(f.Plugins)
	if f.Application != nil {
		v.doc = KindApplication
		v.application(f.Application)
	}
	if f.Preflight != nil {
		v.doc = KindPreflight
		v.preflight(f.Preflight)
	}
	return v.join()
}

func (v *validator) cluster(c *Cluster) {
	if !dnsName.MatchString(c.Name) || len(c.Name) > 63 {
		v.at("metadata.name", "use lower case letters, digits and -", "the cluster's name %q is none", c.Name)
	}
	if c.Image == "" {
		v.at("spec.image", "name a ClusterImage", "spec.image is missing")
	}
	v.env("spec.env", c.Env)
	v.env("spec.cmd_args", c.CmdArgs)
	v.hosts(c)
	v.ssh("spec.ssh", c.SSH)
	v.oneOf("spec.containerRuntime.type", c.ContainerRuntime.Type, "docker", "containerd")
	for i, a := range c.HostAliases {
		v.alias(fmt.Sprintf("spec.hostAliases[%d]", i), a)
	}
	v.registry(c.Registry)
	if c.DataRoot != "" && (!path.IsAbs(c.DataRoot) || path.Clean(c.DataRoot) == "/") {
		v.at("spec.dataRoot", "", "dataRoot %q must be an absolute path of a directory for sealer alone", c.DataRoot)
	}
	v.apiServer(c.APIServer)
	v.pattern("spec.rollout.workers", c.Rollout.Workers, pacingRE, "10% or 5")
	if c.Rollout.DrainTimeout < 0 || c.Rollout.Pause < 0 {
		v.at("spec.rollout", "", "drainTimeout and pause must not be negative")
	}
	v.oneOf("spec.distribution.mode", c.Distribution.Mode, "auto", "star", "swarm")
	v.pattern("spec.distribution.rate", c.Distribution.Rate, rateRE, "50M")
}

func (v *validator) pattern(at, s string, re *regexp.Regexp, example string) {
	if s != "" && !re.MatchString(s) {
		v.at(at, "write for example "+example, "%s %q cannot be read", strings.TrimPrefix(at, "spec."), s)
	}
}

func (v *validator) oneOf(at, s string, known ...string) {
	if s != "" && !slices.Contains(known, s) {
		v.at(at, didYouMean(s, known), "unknown %s %q", strings.TrimPrefix(at, "spec."), s)
	}
}

func (v *validator) env(at string, env []string) {
	for i, e := range env {
		if k, _, ok := strings.Cut(e, "="); !ok || !envKeyRE.MatchString(k) {
			// The value may be a password that lacks its key.
			v.at(fmt.Sprintf("%s[%d]", at, i), "write KEY=VALUE", "entry %d of %s has no key", i+1, at)
		}
	}
}

func (v *validator) ssh(at string, s SSH) {
	v.port(at+".port", s.Port)
}

func (v *validator) port(at string, port int) {
	if port < 0 || port > 65535 {
		v.at(at, "", "%s %d is not between 1 and 65535", at, port)
	}
}

func (v *validator) hosts(c *Cluster) {
	seen, names, masters := map[netip.Addr]bool{}, map[string]bool{}, 0
	for i, h := range c.Hosts {
		at := hostPath(i)
		addresses, bad := v.addresses(at, h)
		for _, a := range addresses {
			if seen[a.Addr()] {
				v.at(at+".ips", "list it once, with all its roles", "%s stands twice in hosts", a.Addr())
			}
			seen[a.Addr()] = true
		}
		if v.roles(at, h.Roles) {
			masters += max(len(addresses), bad)
		}
		v.hostName(at, h.Name, len(addresses), names)
		v.ssh(at+".ssh", h.SSH)
		v.env(at+".env", h.Env)
		v.labels(at+".labels", h.Labels)
		for j, t := range h.Taints {
			if _, err := ParseTaint(t); err != nil {
				v.at(fmt.Sprintf("%s.taints[%d]", at, j), "", "%v", err)
			}
		}
	}
	if masters == 0 {
		v.at("spec.hosts", "give one host the role master, or pass --masters", "no host is a master")
	}
}

// addresses returns a host's addresses and how many of its words are none.
func (v *validator) addresses(at string, h Host) (all []netip.AddrPort, bad int) {
	if len(h.IPs) == 0 {
		v.at(at, "write ips: [10.0.0.1]", "the host has no ips")
	}
	for j, word := range h.IPs {
		got, err := ParseAddresses(word)
		if err != nil {
			bad++
			v.at(fmt.Sprintf("%s.ips[%d]", at, j), "", "%v", err)
		}
		all = append(all, got...)
	}
	return all, bad
}

// roles judges a host's roles and reports whether master is one of them.
func (v *validator) roles(at string, roles []string) bool {
	roles = Roles(roles)
	known := []string{RoleMaster, RoleNode}
	for j, r := range roles {
		if !labelKey(r) {
			v.at(fmt.Sprintf("%s.roles[%d]", at, j), "", "the role %q cannot be a label", r)
		}
	}
	master := slices.Contains(roles, RoleMaster)
	switch {
	case master || slices.Contains(roles, RoleNode):
	case len(roles) == 0:
		v.at(at, "write roles: [master] or roles: [node]", "the host has no role")
	default:
		v.at(at+".roles", didYouMean(roles[0], known), "the host is neither master nor node: roles are %s", strings.Join(roles, ", "))
	}
	return master
}

func (v *validator) hostName(at, name string, machines int, names map[string]bool) {
	switch {
	case name == "":
		return
	case !dnsName.MatchString(name) || len(name) > 63:
		v.at(at+".name", "use lower case letters, digits and -", "the host's name %q is none", name)
	case machines > 1:
		v.at(at+".name", "make an entry for each", "%d machines cannot have one name, %q", machines, name)
	case names[name]:
		v.at(at+".name", "", "two hosts have the name %q", name)
	}
	names[name] = true
}

func (v *validator) labels(at string, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey(k) || !labelValue(labels[k]) {
			v.at(join(at, k), "letters, digits, -, _ and ., at most 63", "%s=%s cannot be a label", k, labels[k])
		}
	}
}

func (v *validator) alias(at string, a HostAlias) {
	if _, err := netip.ParseAddr(a.IP); err != nil {
		v.at(at+".ip", "", "%q is no address", a.IP)
	}
	if len(a.Hostnames) == 0 {
		v.at(at, "", "the host alias of %s has no hostnames", a.IP)
	}
	for j, n := range a.Hostnames {
		if !dnsName.MatchString(n) {
			v.at(fmt.Sprintf("%s.hostnames[%d]", at, j), "", "%q cannot be a host's name", n)
		}
	}
}

func (v *validator) registry(r Registry) {
	if r.Local != nil && r.External != nil {
		v.at("spec.registry", "keep one of them", "localRegistry and externalRegistry exclude each other")
	}
	if l := r.Local; l != nil {
		v.registryAt("spec.registry.localRegistry", l.Domain, l.Port, l.Username, l.Password)
		for j, ip := range l.Cert.SubjectAltName.IPs {
			if _, err := netip.ParseAddr(ip); err != nil {
				v.at(fmt.Sprintf("spec.registry.localRegistry.cert.subjectAltName.ips[%d]", j), "", "%q is no address", ip)
			}
		}
	}
	if e := r.External; e != nil {
		v.registryAt("spec.registry.externalRegistry", e.Domain, e.Port, e.Username, e.Password)
		if e.Domain == "" {
			v.at("spec.registry.externalRegistry", "", "externalRegistry has no domain")
		}
	}
}

func (v *validator) registryAt(at, domain string, port int, user string, password Secret) {
	if domain != "" && !dnsName.MatchString(domain) {
		if _, err := netip.ParseAddr(domain); err != nil {
			v.at(at+".domain", "write a host's name without scheme and port", "the registry's domain %q is none", domain)
		}
	}
	v.port(at+".port", port)
	if (user == "") != password.IsZero() {
		v.at(at, "", "username and password go together")
	}
}

func (v *validator) apiServer(a APIServer) {
	if a.Domain != "" && !dnsName.MatchString(a.Domain) {
		v.at("spec.apiServer.domain", "", "%q cannot be a host's name", a.Domain)
	}
	v.oneOf("spec.apiServer.balancer", a.Balancer, BalancerLocal, BalancerLvscare, BalancerExternal)
	switch {
	case a.Balancer == BalancerExternal && a.Endpoint == "":
		v.at("spec.apiServer", "write endpoint: HOST:PORT", "balancer external needs an endpoint")
	case a.Balancer != BalancerExternal && a.Endpoint != "":
		v.at("spec.apiServer.endpoint", "write balancer: external, or remove it", "endpoint is for balancer external")
	case a.Endpoint != "":
		host, port, ok := cutPort(a.Endpoint)
		if !ok || host == "" || port == 0 {
			v.at("spec.apiServer.endpoint", "write HOST:PORT", "endpoint %q cannot be read", a.Endpoint)
		}
	}
}

func cutPort(s string) (host string, port int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	return s[:i], int(n), err == nil
}

func (v *validator) configs(configs []Config) {
	names := map[string]bool{}
	for _, c := range configs {
		v.doc = configKey(c.Name)
		v.named("Config", c.Name, names)
		v.rootfsPath("spec.path", c.Path)
		v.oneOf("spec.strategy", c.Strategy, StrategyOverwrite, StrategyMerge)
		for _, p := range splitBar(c.Process) {
			v.oneOf("spec.process", p, "value", "toJson", "toBase64", "toSecret")
		}
	}
}

func (v *validator) named(kind, name string, names map[string]bool) {
	switch {
	case name == "":
		v.at("", "write metadata: {name: …}", "a %s has no name", kind)
	case names[name]:
		v.at("", "give each its own", "two of kind %s have the name %q", kind, name)
	}
	names[name] = true
}

// rootfsPath refuses paths that leave the rootfs.
func (v *validator) rootfsPath(at, p string) {
	switch clean := path.Clean(p); {
	case p == "":
		v.at(at, "name a file of the rootfs, as etc/app.yaml", "%s is missing", at)
	case path.IsAbs(p), clean == "..", strings.HasPrefix(clean, "../"), clean == ".", strings.ContainsAny(p, "\x00\\"):
		v.at(at, "name a file below the rootfs, as etc/app.yaml", "path %q leaves the rootfs", p)
	}
}

// splitBar takes A|B|C apart.
func splitBar(s string) []string {
	var out []string
	for w := range strings.SplitSeq(s, "|") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// Actions returns the plugin's phases.
func (p Plugin) Actions() []string { return splitBar(p.Action) }

// Scopes returns the roles that the plugin is for; none is all.
func (p Plugin) Scopes() []string { return splitBar(p.Scope) }

func (v *validator) plugins(plugins []Plugin) {
	names := map[string]bool{}
	for _, p := range plugins {
		v.doc = pluginKey(p.Name)
		v.named("Plugin", p.Name, names)
	}
}

func (v *validator) application(a *Application) {
	if len(a.Cmds) > 0 && len(a.LaunchApps) > 0 {
		v.at("spec.cmds", "keep one of them", "cmds and launchApps exclude each other")
	}
	names := map[string]bool{}
	for i, c := range a.Configs {
		at := fmt.Sprintf("spec.configs[%d]", i)
		switch {
		case c.Name == "":
			v.at(at, "name the application", "the entry has no name")
		case names[c.Name]:
			v.at(at, "", "two entries are for %q", c.Name)
		}
		names[c.Name] = true
		v.env(at+".env", c.Env)
		for j, f := range c.Files {
			file := fmt.Sprintf("%s.files[%d]", at, j)
			v.rootfsPath(file+".path", f.Path)
			v.oneOf(file+".strategy", f.Strategy, StrategyOverwrite, StrategyMerge, StrategyRender)
		}
	}
}

func (v *validator) preflight(p *Preflight) {
	for i, s := range p.Skip {
		at := fmt.Sprintf("spec.skip[%d]", i)
		if s.Check == "" {
			v.at(at, "", "the entry names no check")
		}
		if strings.TrimSpace(s.Reason) == "" {
			v.at(at, "say in reason why; it stands in every report", "check %q is skipped without a reason", s.Check)
		}
	}
}

// LabelOK reports whether key and value can be a Kubernetes label.
func LabelOK(key, value string) bool { return labelKey(key) && labelValue(value) }
