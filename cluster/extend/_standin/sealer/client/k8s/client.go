// Package k8s stands in for sealer's client of the API server. It asks kubectl,
// the rootfs's before another, with the KUBECONFIG of the environment.
package k8s

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	v1 "k8s.io/api/core/v1"
)

type Client struct{ kubectl string }

func Newk8sClient() (*Client, error) {
	if os.Getenv("KUBECONFIG") == "" {
		return nil, errors.New("there is no cluster at this phase")
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, fmt.Errorf("no kubectl in the rootfs's bin or in PATH: %w", err)
	}
	return &Client{path}, nil
}

func NewK8sClient() (*Client, error) { return Newk8sClient() }

func (c *Client) run(out any, args ...string) error {
	cmd := exec.Command(c.kubectl, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(stdout.Bytes(), out)
}

func (c *Client) ListNodes() (*v1.NodeList, error) {
	var l v1.NodeList
	return &l, c.run(&l, "get", "nodes", "-o", "json")
}

func (c *Client) ListPods(namespace string) (*v1.PodList, error) {
	var l v1.PodList
	args := []string{"get", "pods", "-o", "json", "--all-namespaces"}
	if namespace != "" {
		args = append(args[:4], "-n", namespace)
	}
	return &l, c.run(&l, args...)
}

func (c *Client) DeleteNode(name string) error { return c.run(nil, "delete", "node", name) }

// UpdateNode takes a Node or a *Node, as the versions of sealer did. Labels,
// annotations, taints and unschedulable become those of the node; the rest of
// it stays.
func (c *Client) UpdateNode(node any) (*v1.Node, error) {
	n, ok := node.(*v1.Node)
	if !ok {
		v, ok := node.(v1.Node)
		if !ok {
			return nil, fmt.Errorf("UpdateNode: %T is no node", node)
		}
		n = &v
	}
	var now v1.Node
	if err := c.run(&now, "get", "node", n.Name, "-o", "json"); err != nil {
		return nil, err
	}
	taints := n.Spec.Taints
	if taints == nil {
		taints = []v1.Taint{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": difference(now.Labels, n.Labels), "annotations": difference(now.Annotations, n.Annotations)},
		"spec":     map[string]any{"taints": taints, "unschedulable": n.Spec.Unschedulable},
	})
	if err != nil {
		return nil, err
	}
	var out v1.Node
	return &out, c.run(&out, "patch", "node", n.Name, "--type", "merge", "-p", string(patch), "-o", "json")
}

// difference returns the merge patch that turns now into want: null removes a
// key.
func difference(now, want map[string]string) map[string]any {
	out := map[string]any{}
	for k := range now {
		if _, ok := want[k]; !ok {
			out[k] = nil
		}
	}
	for k, v := range want {
		out[k] = v
	}
	return out
}
