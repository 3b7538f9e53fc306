package spec

import (
	"reflect"
	"strings"
)

// Shapes of spec in a Cluster document. The embedded ones are read as the
// fields of one mapping.

// oldCluster holds the fields that version 1 had and version 2 has not: hosts
// by role, and machines that sealer made in a cloud.
type oldCluster struct {
	Provider string     `json:"provider"`
	Masters  oldHosts   `json:"masters"`
	Nodes    oldHosts   `json:"nodes"`
	Network  oldNetwork `json:"network"`
	CertSANs []string   `json:"certSANS"`
}

type oldHosts struct {
	CPU        string   `json:"cpu"`
	Memory     string   `json:"memory"`
	Count      string   `json:"count"`
	SystemDisk string   `json:"systemDisk"`
	DataDisks  []string `json:"dataDisks"`
	IPList     []string `json:"ipList"`
}

type oldNetwork struct {
	Interface  string `json:"interface"`
	CNIName    string `json:"cniName"`
	PodCIDR    string `json:"podCIDR"`
	SvcCIDR    string `json:"svcCIDR"`
	WithoutCNI bool   `json:"withoutCNI"`
}

// notSpec are the fields of Cluster that metadata holds.
func notSpec(key string) bool { return key == "name" || key == "annotations" || key == "labels" }

func (d *decoder) cluster(f *File, h header, rest []pair) {
	_, second := f.places[KindCluster+":"]
	if !d.once(second, h) {
		return
	}
	var m metadata
	var old oldCluster
	for _, p := range rest {
		switch p.key {
		case "metadata":
			d.decode(p.value, reflect.ValueOf(&m).Elem(), "metadata", 1)
		case "spec":
			d.clusterSpec(p, &f.Cluster, &old)
		default:
			d.add(p.line, didYouMean(p.key, []string{"metadata", "spec"}), "unknown field %q in the document", p.key)
		}
	}
	f.Cluster.Name, f.Cluster.Annotations, f.Cluster.Labels = m.Name, m.Annotations, m.Labels
	d.keep(f, KindCluster)
	d.convert(f, h, old)
	d.encrypted(f)
}

// clusterSpec reads spec into the fields of both versions.
func (d *decoder) clusterSpec(spec pair, c *Cluster, old *oldCluster) {
	n := d.enter(spec.value, 1)
	if n == nil || isNull(n) {
		return
	}
	new, now := reflect.ValueOf(c).Elem(), fieldsOf(reflect.TypeFor[Cluster]())
	was, then := reflect.ValueOf(old).Elem(), fieldsOf(reflect.TypeFor[oldCluster]())
	for _, p := range d.pairs(n, 1) {
		path := "spec." + p.key
		if i, ok := now[p.key]; ok && !notSpec(p.key) {
			d.decode(p.value, new.Field(i), path, 2)
		} else if i, ok := then[p.key]; ok {
			d.decode(p.value, was.Field(i), path, 2)
			d.places[path] = place{d.file, p.line}
		} else {
			var known []string
			for _, k := range names(new.Type()) {
				if k != "" && !notSpec(k) {
					known = append(known, k)
				}
			}
			d.add(p.line, didYouMean(p.key, known), "unknown field %q in spec", p.key)
		}
	}
}

const cloudFix = "sealer makes no machines: start them yourself, list their addresses in spec.hosts, and remove provider, cpu, memory, count and disks"

// convert turns version 1's fields into version 2's.
func (d *decoder) convert(f *File, h header, old oldCluster) {
	c, line := &f.Cluster, func(path string) int { return d.places[path].line }
	if p := old.Provider; p != "" && !strings.EqualFold(p, "BAREMETAL") {
		d.add(line("spec.provider"), cloudFix, "provider %s", p)
	}
	for _, group := range []struct {
		path, role string
		hosts      oldHosts
	}{{"spec.masters", "master", old.Masters}, {"spec.nodes", "node", old.Nodes}} {
		o := group.hosts
		switch {
		case o.Count+o.CPU+o.Memory+o.SystemDisk+strings.Join(o.DataDisks, "") != "" && len(o.IPList) == 0:
			if old.Provider == "" || strings.EqualFold(old.Provider, "BAREMETAL") {
				d.add(line(group.path), cloudFix, "%s has no ipList", group.path)
			}
		case len(o.IPList) > 0:
			f.places[KindCluster+":"+hostPath(len(c.Hosts))] = d.places[group.path]
			c.Hosts = append(c.Hosts, Host{IPs: o.IPList, Roles: []string{group.role}})
		}
	}
	if n := old.Network; n.Interface != "" || n.CNIName != "" || n.WithoutCNI {
		f.warn(d.file, line("spec.network"), "write them in env if the image's templates ask for them",
			"network.interface, cniName and withoutCNI have no effect")
	}
	f.networking(old)
}

// networking keeps version 1's network in the form that kubeadm reads.
func (f *File) networking(old oldCluster) {
	tree, networking := map[string]any{}, map[string]any{}
	if s := old.Network.PodCIDR; s != "" {
		networking["podSubnet"] = s
	}
	if s := old.Network.SvcCIDR; s != "" {
		networking["serviceSubnet"] = s
	}
	if len(networking) > 0 {
		tree["networking"] = networking
	}
	if len(old.CertSANs) > 0 {
		var sans []any
		for _, s := range old.CertSANs {
			sans = append(sans, s)
		}
		tree["apiServer"] = map[string]any{"certSANs": sans}
	}
	if len(tree) > 0 {
		f.Kubeadm = append(f.Kubeadm, Document{Kind: "ClusterConfiguration", Tree: tree})
	}
}

// encrypted warns of passwords in a form that anybody can reverse.
func (d *decoder) encrypted(f *File) {
	const fix = "write ${env:NAME} or ${file:PATH} instead"
	warn := func(path string) {
		f.warn(d.file, d.places[path+".encrypted"].line, fix, "encrypted: true hides nothing: the key stands in sealer's public source")
	}
	if f.Cluster.SSH.Encrypted {
		warn("spec.ssh")
	}
	for i, h := range f.Cluster.Hosts {
		if h.SSH.Encrypted {
			warn(hostPath(i) + ".ssh")
		}
	}
}
