package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/cluster/kubeadm"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/preflight"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
	"github.com/clusterimage/sealer/registry/ref"
)

// kubeadmFile is the image's kubeadm.
const kubeadmFile = "bin/kubeadm"

// lacking asks the image's kubeadm which container images it wants and compares
// them with the images inside. Nil means that there is nothing to ask: the image
// has no kubeadm, or an earlier run, which asked, has brought the image to the
// first master already.
func (e *engine) lacking(ctx context.Context, img *source, seen []plan.Node) (*preflight.Wanted, error) {
	first := seen[0]
	known := slices.Contains(first.Clusters, e.file.Cluster.Name) && len(first.Missing) == 0
	if _, has := img.Files[kubeadmFile]; !has || known {
		return nil, nil
	}
	config, err := e.listConfig(img, seen)
	if err != nil {
		return nil, err
	}
	f, err := img.files.Open(kubeadmFile)
	if err != nil {
		return nil, err
	}
	var names []string
	err = e.machines[0].conn.Call(ctx, node.OpWants, config, &names, wire.Streams{Input: f})
	if cerr := f.Close(); cerr != nil {
		return nil, fmt.Errorf("%s: %w", kubeadmFile, cerr)
	}
	if remote := new(wire.Error); errors.As(err, &remote) {
		return &preflight.Wanted{Err: err}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.machines[0].name(), err)
	}
	out := &preflight.Wanted{}
	out.Lacks, err = e.notInside(ctx, img, names)
	return out, err
}

// listConfig is the ClusterConfiguration of the cluster, from which kubeadm's
// list of images follows.
func (e *engine) listConfig(img *source, seen []plan.Node) (string, error) {
	var hosts []plan.Host
	for i, m := range e.machines {
		hosts = append(hosts, plan.Host{Node: m.Node, Kube: kubeName(m, seen[i])})
	}
	o, err := e.kubeadmOptions(img, seen, hosts)
	if err != nil {
		return "", err
	}
	d, err := kubeadm.Init(o, kubeadmNode(hosts[0]), kubeadm.Material{})
	if err != nil {
		return "", err
	}
	d.List = slices.DeleteFunc(d.List, func(d spec.Document) bool { return d.Kind != "ClusterConfiguration" })
	b, err := d.YAML()
	return string(b), err
}

// notInside returns the names that no mirrored image of the ClusterImage answers
// for. The Clusterfile's name of the private registry stands for the image's.
func (e *engine) notInside(ctx context.Context, img *source, names []string) ([]string, error) {
	domain, port, err := registryName(e.file.Cluster.Registry.Local, img.Private)
	if err != nil {
		return nil, err
	}
	own := net.JoinHostPort(domain, strconv.Itoa(port)) + "/"
	var refs []ref.Reference
	asked := map[string]string{}
	for _, n := range names {
		inside := n
		if rest, ok := strings.CutPrefix(n, own); ok && img.Private != "" {
			inside = img.Private + "/" + rest
		}
		r, err := ref.Parse(inside)
		if err != nil {
			return nil, fmt.Errorf("kubeadm config images list: %w", err)
		}
		refs = append(refs, r)
		asked[r.String()] = n
	}
	carried, err := Carried(ctx, e.Store, e.file.Cluster.Image)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range proof.Lacks(carried, refs) {
		out = append(out, asked[r.String()])
	}
	return out, nil
}
