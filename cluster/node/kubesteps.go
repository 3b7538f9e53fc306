package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/plan"
)

type waitKind struct{}

// Check looks at the cluster as Do does, once.
func (waitKind) Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.WaitArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	k, err := w.newKube()
	if err != nil {
		return false, nil //nolint:nilerr // no cluster yet
	}
	missing, err := lacks(ctx, k, a)
	return err == nil && missing == "", nil
}

func (waitKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.WaitArgs](w, args)
	if err != nil {
		return err
	}
	end := time.Duration(a.Seconds) * time.Second
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, end, fmt.Errorf("not within %v", end))
	defer cancel()
	said := ""
	for {
		missing, err := lacks(ctx, k, a)
		if err != nil {
			missing = err.Error()
		}
		if missing == "" {
			return pause(whole, time.Duration(a.Pause)*time.Second)
		}
		if missing != said && w.Log != nil {
			w.Log("waits: " + missing)
		}
		if ctx.Err() == nil {
			said = missing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster: %w: %s", context.Cause(ctx), said)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// lacks names the first condition of a that does not hold yet; "" when all
// hold.
func lacks(ctx context.Context, k *kube.Client, a plan.WaitArgs) (string, error) {
	var nodes, pods objectList
	if err := k.Do(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &nodes); err != nil {
		return "", err
	}
	for _, name := range a.Nodes {
		i := slices.IndexFunc(nodes.Items, func(o object) bool { return o.Metadata.Name == name })
		if i < 0 {
			return fmt.Sprintf("node %s is not known", name), nil
		}
		if ok, why := nodes.Items[i].ready(); a.Ready && !ok {
			return fmt.Sprintf("node %s is not ready: %s", name, why), nil
		}
	}
	if !a.Ready {
		return "", nil
	}
	if err := k.Do(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/pods", "", nil, &pods); err != nil {
		return "", err
	}
	for _, p := range pods.Items {
		if ok, _ := p.ready(); !ok && p.Status.Phase != "Succeeded" {
			return fmt.Sprintf("pod kube-system/%s is not ready: %s", p.Metadata.Name, p.why()), nil
		}
	}
	if len(pods.Items) == 0 {
		return "kube-system has no pods", nil
	}
	return "", nil
}

type labelKind struct{}

// apply returns the taints of a node as they are to be.
func applyTaints(a plan.LabelArgs, have []taint) []taint {
	out := slices.Clone(have)
	for _, t := range a.Taints {
		out = slices.DeleteFunc(out, func(o taint) bool {
			return o.Key == t.Key && (o.Effect == t.Effect || t.Remove && t.Effect == "")
		})
		if !t.Remove {
			out = append(out, taint{t.Key, t.Value, t.Effect})
		}
	}
	return out
}

func (labelKind) Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.LabelArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	k, err := w.newKube()
	if err != nil {
		return false, nil //nolint:nilerr // no cluster yet
	}
	var n object
	if err := k.Do(ctx, http.MethodGet, "/api/v1/nodes/"+a.Node, "", nil, &n); err != nil {
		return false, nil //nolint:nilerr // no answer, no node: to be done
	}
	for key, v := range a.Labels {
		if got, ok := n.Metadata.Labels[key]; !ok || got != v {
			return false, nil
		}
	}
	for _, key := range a.Remove {
		if _, there := n.Metadata.Labels[key]; there {
			return false, nil
		}
	}
	for _, t := range a.Taints {
		has := slices.ContainsFunc(n.Spec.Taints, func(o taint) bool {
			return o.Key == t.Key && (t.Remove && (t.Effect == "" || t.Effect == o.Effect) || o.Effect == t.Effect && o.Value == t.Value)
		})
		if has == t.Remove {
			return false, nil
		}
	}
	return true, nil
}

func (labelKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.LabelArgs](w, args)
	if err != nil {
		return err
	}
	var n object
	if err := k.Do(ctx, http.MethodGet, "/api/v1/nodes/"+a.Node, "", nil, &n); err != nil {
		return err
	}
	labels := map[string]any{}
	for key, v := range a.Labels {
		labels[key] = v
	}
	for _, key := range a.Remove {
		labels[key] = nil // a merge patch removes it
	}
	patch := map[string]any{"metadata": map[string]any{"labels": labels}}
	if len(a.Taints) > 0 {
		patch["spec"] = map[string]any{"taints": applyTaints(a, n.Spec.Taints)}
	}
	return k.Do(ctx, http.MethodPatch, "/api/v1/nodes/"+a.Node, mergePatch, patch, nil)
}

type secretKind struct{}

func (secretKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.Journal.Records().Done(w.Step.ID), nil
}

func (secretKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.SecretArgs](w, args)
	if err != nil {
		return err
	}
	var data map[string]string
	if err := json.Unmarshal([]byte(w.Secrets["data"]), &data); err != nil {
		return fmt.Errorf("secret %s: %w", a.Name, err)
	}
	body := map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": a.Name, "namespace": a.Namespace},
		"stringData": data,
	}
	path := "/api/v1/namespaces/" + a.Namespace + "/secrets"
	err = k.Do(ctx, http.MethodPost, path, "application/json", body, nil)
	if status(err) == http.StatusConflict {
		return k.Do(ctx, http.MethodPut, path+"/"+a.Name, "application/json", body, nil)
	}
	return err
}

type leaveKind struct{}

func (leaveKind) Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error) {
	a, k, err := kubeStep[plan.LeaveArgs](w, args)
	if err != nil {
		return false, err
	}
	err = k.Do(ctx, http.MethodGet, "/api/v1/nodes/"+a.Node, "", nil, nil)
	if absent(err) {
		return true, nil
	}
	return false, err
}

func (leaveKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.LeaveArgs](w, args)
	if err != nil {
		return err
	}
	err = k.Do(ctx, http.MethodDelete, "/api/v1/nodes/"+a.Node, "application/json", nil, nil)
	if absent(err) {
		return nil
	}
	return err
}

// drainKind empties a node. The node's object stays until kubeadm has reset the
// machine: without it kubeadm would not take a master's etcd member away.
type drainKind struct{ leaveKind }

func (drainKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.LeaveArgs](w, args)
	if err != nil {
		return err
	}
	node := "/api/v1/nodes/" + a.Node
	if err := k.Do(ctx, http.MethodPatch, node, mergePatch, map[string]any{"spec": map[string]any{"unschedulable": true}}, nil); err != nil {
		return err
	}
	end := time.Duration(a.Seconds) * time.Second
	limited, cancel := context.WithTimeoutCause(ctx, end, fmt.Errorf("not within %v", end))
	defer cancel()
	if err := drain(limited, k, a.Node); err != nil {
		return fmt.Errorf("drain %s: %w", a.Node, err)
	}
	return nil
}

// drain evicts the pods of a node, except the pods that belong to the node:
// static pods and the pods of DaemonSets. It returns when the evicted pods are
// gone; a disruption budget delays it.
func drain(ctx context.Context, k *kube.Client, node string) error {
	for {
		var pods objectList
		if err := k.Do(ctx, http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+node, "", nil, &pods); err != nil {
			return err
		}
		var left []string
		for _, p := range pods.Items {
			if p.stays() {
				continue
			}
			left = append(left, p.Metadata.Namespace+"/"+p.Metadata.Name)
			if p.Metadata.DeletionTimestamp != nil {
				continue
			}
			err := evict(ctx, k, p)
			if err != nil && !absent(err) && status(err) != http.StatusTooManyRequests {
				return err
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s stay", context.Cause(ctx), strings.Join(left, ", "))
		case <-time.After(time.Second):
		}
	}
}

func evict(ctx context.Context, k *kube.Client, p object) error {
	return k.Do(ctx, http.MethodPost, "/api/v1/namespaces/"+p.Metadata.Namespace+"/pods/"+p.Metadata.Name+"/eviction", "application/json", map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"name": p.Metadata.Name, "namespace": p.Metadata.Namespace},
	}, nil)
}

// stays says that a pod does not leave its node, or has ended.
func (o object) stays() bool {
	if _, static := o.Metadata.Annotations["kubernetes.io/config.mirror"]; static {
		return true
	}
	for _, r := range o.Metadata.OwnerReferences {
		if r.Kind == "DaemonSet" {
			return true
		}
	}
	return o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed"
}

type kubeconfigKind struct{}

func (kubeconfigKind) Check(context.Context, *Work, json.RawMessage) (bool, error) { return false, nil }

func (kubeconfigKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.KubeconfigArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	b, err := os.ReadFile(w.Path(adminConf))
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		if indent, _, ok := strings.Cut(l, "server: "); ok && strings.TrimSpace(indent) == "" {
			lines[i] = indent + "server: " + a.Server
		}
	}
	w.Output = map[string]string{"kubeconfig": strings.Join(lines, "\n")}
	return nil
}
