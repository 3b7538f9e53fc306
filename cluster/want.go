package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/kubeadm"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// memberWait bounds, in seconds, the waits of a run that only tells the machines
// of a cluster who has left: whether all of them are ready is not its matter.
const memberWait = 60

// want looks up all that a plan needs.
func (e *engine) want(_ context.Context, img *source, seen []plan.Node) (plan.Want, error) {
	c := e.file.Cluster
	ca, err := e.state.ca()
	if err != nil {
		return plan.Want{}, err
	}
	w := plan.Want{
		Verb: plan.Create, Cluster: c.Name, Aliases: c.HostAliases, CA: string(ca.cert), Program: e.own.Digest,
		Full: img.full, Rootfs: img.bare, Force: e.Force, RegistryHA: true, Runtime: c.ContainerRuntime.Type,
	}
	if w.RegistryDomain, w.RegistryPort, err = registryName(c.Registry.Local, img.Private); err != nil {
		return w, err
	}
	if l := c.Registry.Local; l != nil && l.HA != nil {
		w.RegistryHA = *l.HA
	}
	if w.Commands, err = img.commands(e.file); err != nil {
		return w, err
	}
	w.Plugins = e.work
	if e.member {
		w.WaitSeconds = memberWait
	}
	w.AtOnce, w.PauseSeconds = pace(c.Rollout, e.workers()), int(time.Duration(c.Rollout.Pause).Seconds())
	for i, m := range e.machines {
		h := plan.Host{Node: m.Node, Kube: kubeName(m, seen[i])}
		m.kube = h.Kube
		h.Generation, h.Inputs, err = e.generation(&part{img, e.file}, h)
		if err != nil {
			return w, fmt.Errorf("%s: %w", m.name(), err)
		}
		w.Hosts = append(w.Hosts, h)
	}
	if err := e.kubeadm(img, seen, &w); err != nil {
		return w, err
	}
	if w.Apps, err = e.wantApps(w.Hosts[0]); err != nil {
		return w, err
	}
	list, err := e.listApps()
	if err != nil {
		return w, err
	}
	w.Applications = string(list)
	data, err := json.Marshal(e.about(img))
	w.Secret = digest(data)
	return w, err
}

func (e *engine) workers() int {
	n := 0
	for _, m := range e.machines {
		if !m.Master() {
			n++
		}
	}
	return n
}

// pace is how many of the workers change at once, at least one.
func pace(r spec.Rollout, workers int) int {
	text, percent := strings.CutSuffix(cmp.Or(r.Workers, "10%"), "%")
	n, err := strconv.Atoi(text)
	if err != nil { // Validate has looked at it: more than an int holds
		return max(workers, 1)
	}
	if percent {
		n = workers * min(n, 100) / 100
	}
	return max(n, 1)
}

// kubeName is the name of a machine's node in the cluster.
func kubeName(m *machine, seen plan.Node) string {
	return strings.ToLower(cmp.Or(m.Name, seen.Hostname))
}

// registryName is the name and port of the private registry: the Clusterfile's,
// else the image's.
func registryName(l *spec.LocalRegistry, image string) (string, int, error) {
	domain, port, err := net.SplitHostPort(image)
	if err != nil {
		domain, port = cmp.Or(image, "sea.hub"), "5000"
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, fmt.Errorf("private registry %s: %w", image, err)
	}
	if l != nil {
		domain, n = cmp.Or(l.Domain, domain), cmp.Or(l.Port, n)
	}
	return domain, n, nil
}

// inputs returns the values of the Clusterfile that change an image's files
// for one machine. With resolve, the secrets in them are resolved. The
// environment of an application's own settings counts before the machine's.
func (e *engine) inputs(p *part, h plan.Host, resolve bool) (node.Inputs, error) {
	c := e.file.Cluster
	domain, port, err := registryName(c.Registry.Local, p.Private)
	if err != nil {
		return node.Inputs{}, err
	}
	in := node.Inputs{Configs: p.file.Configs, App: p.file.Application}
	if p.file != e.file {
		h.Env = slices.Concat(slices.DeleteFunc(slices.Clone(h.Env), func(line string) bool {
			k, _, _ := strings.Cut(line, "=")
			return hasKey(p.file.Cluster.Env, k)
		}), p.file.Cluster.Env)
	}
	for _, kv := range [][2]string{
		{"HostIP", h.Address.String()}, {"NodeName", h.Kube}, {"ClusterName", c.Name},
		{"RegistryDomain", domain}, {"RegistryPort", strconv.Itoa(port)}, {"RegistryURL", domain + ":" + strconv.Itoa(port)},
	} {
		if !hasKey(h.Env, kv[0]) {
			in.Env = append(in.Env, kv[0]+"="+kv[1])
		}
	}
	more, err := expanded(h.Env, resolve)
	in.Env = append(in.Env, more...)
	return in, err
}

func hasKey(env []string, key string) bool {
	for _, line := range env {
		if k, _, _ := strings.Cut(line, "="); k == key {
			return true
		}
	}
	return false
}

// generation is the digest of all that makes a machine's rootfs, and of the
// inputs alone. Secrets count by their references.
func (e *engine) generation(p *part, h plan.Host) (string, string, error) {
	in, err := e.inputs(p, h, false)
	if err != nil {
		return "", "", err
	}
	b, err := json.Marshal(in)
	if err != nil {
		return "", "", err
	}
	inputs := digest(b)
	return strings.TrimPrefix(digest([]byte(p.Digest+inputs)), "sha256:")[:12], inputs, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// kubeadm makes kubeadm's documents of every machine.
func (e *engine) kubeadm(img *source, seen []plan.Node, w *plan.Want) error {
	o, err := e.kubeadmOptions(img, seen, w.Hosts)
	if err != nil {
		return err
	}
	api := e.file.Cluster.APIServer
	w.APIDomain = cmp.Or(api.Domain, "apiserver.cluster.local")
	if api.Balancer == spec.BalancerExternal {
		w.External = api.Endpoint
	}
	host, port, err := o.APIServer()
	if err != nil {
		return err
	}
	w.APIPort, e.apiPort = port, port
	if w.External == "" {
		w.APIDomain = host
	}
	var errs []error
	for i, h := range w.Hosts {
		var d kubeadm.Documents
		if i == 0 {
			d, err = kubeadm.Init(o, kubeadmNode(h), kubeadm.Material{})
			w.Pods = podNetworks(d.List)
		} else {
			d, err = kubeadm.Join(o, kubeadmNode(h), kubeadm.Material{}, net.JoinHostPort(host, strconv.Itoa(port)), h.Master())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.Address, err))
			continue
		}
		for _, text := range d.Warnings {
			e.event(Event{Type: "log", Host: h.Address.String(), Text: "warning: " + text})
		}
		b, err := d.YAML()
		if err != nil {
			return err
		}
		w.Hosts[i].Kubeadm = string(b)
	}
	return errors.Join(errs...)
}

// kubeadmOptions are the inputs of kubeadm's documents that all machines share.
func (e *engine) kubeadmOptions(img *source, seen []plan.Node, hosts []plan.Host) (kubeadm.Options, error) {
	version, err := kubeadm.ParseVersion(img.Kubernetes)
	if err != nil {
		return kubeadm.Options{}, fmt.Errorf("image %s: Kubernetes %q: %w: the image needs a file Metadata with a version", img.Name, img.Kubernetes, err)
	}
	docs, err := img.documents()
	if err != nil {
		return kubeadm.Options{}, err
	}
	api := e.file.Cluster.APIServer
	o := kubeadm.Options{Version: version, Clusterfile: e.file.Kubeadm, Image: docs, Rootfs: path.Join(plan.Dir(e.file.Cluster.Name), "rootfs", "current")}
	if api.Balancer == spec.BalancerExternal {
		o.Endpoint = api.Endpoint
	}
	if api.Domain != "" && o.Endpoint == "" {
		o.Endpoint = api.Domain + ":6443"
	}
	for i, h := range hosts {
		if h.Master() {
			o.Masters = append(o.Masters, kubeadmNode(h))
		}
		o.CgroupV1 = o.CgroupV1 || seen[i].Cgroup == 1
	}
	return o, nil
}

// podNetworks are the networks that ClusterConfiguration names, one for each
// family of addresses.
func podNetworks(docs []spec.Document) []string {
	for _, d := range docs {
		networking, ok := d.Tree["networking"].(map[string]any)
		if subnet, is := networking["podSubnet"].(string); ok && is && d.Kind == "ClusterConfiguration" {
			return strings.Split(subnet, ",")
		}
	}
	return nil
}

func kubeadmNode(h plan.Host) kubeadm.Node {
	return kubeadm.Node{Name: h.Kube, Address: h.Address, Worker: h.Worker()}
}

// about returns the data of the Secret in which the cluster keeps its own
// description.
func (e *engine) about(img *source) map[string]string {
	out := map[string]string{"image": img.Name, "digest": img.Digest}
	if b, err := spec.Print(e.file); err == nil {
		out["Clusterfile"] = string(b)
	}
	for i, a := range e.apps {
		out[fmt.Sprintf("application.%d", i+1)] = a.Name + " " + a.Digest
	}
	return out
}
