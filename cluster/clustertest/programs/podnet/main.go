// Command podnet is the pod network of test clusters: on each node it writes the
// configuration of the bridge plugin for the node's range of pod addresses, and
// keeps a route to the range of every other node. Nodes must be neighbours.
//
// It runs in a DaemonSet on the host's network, with NODE_NAME, the plugins'
// configuration directory at /etc/cni/net.d, the kubelet's own configuration,
// and the right to list nodes.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	self := os.Getenv("NODE_NAME")
	for {
		pause := 2 * time.Second
		nodes, err := list(context.Background())
		if err == nil {
			err = apply(self, nodes)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "podnet:", err)
			pause /= 8 // the node is not Ready before
		}
		time.Sleep(pause)
	}
}

// A node is the part of a Node object that podnet needs.
type node struct {
	name    string
	pods    *net.IPNet // nil before the controller manager has chosen it
	address net.IP
}

// server is the address by which the node's kubelet reaches the API server. The
// Service's address would do once kube-proxy runs; before, packets to it leave
// the node by the default route.
func server() (string, error) {
	const file = "/etc/kubernetes/kubelet.conf"
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "server: "); ok {
			return url, nil
		}
	}
	return "", fmt.Errorf("%s: no server", file)
}

// list lists the nodes of the cluster. The credentials are read each time, as
// the kubelet renews them.
func list(ctx context.Context) ([]node, error) {
	base, err := server()
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	h := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/nodes", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
	a, err := h.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list nodes: %s", a.Status)
	}
	var answer struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDR string }
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	if err := json.NewDecoder(a.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var out []node
	for _, i := range answer.Items {
		n := node{name: i.Metadata.Name}
		if _, pods, err := net.ParseCIDR(i.Spec.PodCIDR); err == nil {
			n.pods = pods
		}
		for _, a := range i.Status.Addresses {
			if a.Type == "InternalIP" && n.address == nil {
				n.address = net.ParseIP(a.Address)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// apply makes this node's configuration and routes as nodes say.
func apply(self string, nodes []node) error {
	i := slices.IndexFunc(nodes, func(n node) bool { return n.name == self })
	if i < 0 || nodes[i].pods == nil {
		return fmt.Errorf("node %s has no range of pod addresses yet", self)
	}
	for j, n := range nodes {
		if j == i || n.pods == nil || n.address == nil {
			continue
		}
		if err := replaceRoute(n.pods, n.address); err != nil {
			return fmt.Errorf("route to %s by %s: %w", n.pods, n.address, err)
		}
	}
	return configure("/etc/cni/net.d/10-podnet.conflist", nodes[i].pods)
}

// configure writes the list of plugins for a range of pod addresses, if it is
// not there. A half-written file never becomes visible to the runtime.
func configure(file string, pods *net.IPNet) error {
	type m map[string]any
	want, err := json.MarshalIndent(m{
		"cniVersion": "1.0.0",
		"name":       "podnet",
		"plugins": []m{
			{
				"type": "bridge", "bridge": "podnet0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": m{
					"type":   "host-local",
					"ranges": [][]m{{{"subnet": pods.String()}}},
					"routes": []m{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": m{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(file); err == nil && string(have) == string(want) {
		return nil
	}
	tmp := filepath.Join(filepath.Dir(file), ".podnet.tmp")
	if err := os.WriteFile(tmp, want, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
