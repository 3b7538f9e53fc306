package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/plan"
)

// lostKind removes a machine that does not answer from the cluster: its member of
// etcd and its node. kubeadm, which would do it on that machine, cannot run there.
type lostKind struct{}

func (lostKind) Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error) {
	a, k, err := kubeStep[plan.LostArgs](w, args)
	if err != nil {
		return false, err
	}
	nodes, err := nodesAt(ctx, k, a.Address)
	if err != nil || len(nodes) > 0 || !a.Master {
		return len(nodes) == 0 && err == nil, err
	}
	_, members, err := w.members(ctx, a.Address)
	return len(members) == 0 && err == nil, err
}

func (lostKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	a, k, err := kubeStep[plan.LostArgs](w, args)
	if err != nil {
		return err
	}
	// The member is first: an etcd that counts on a dead one may lose its majority.
	if a.Master {
		etcd, members, err := w.members(ctx, a.Address)
		if err != nil {
			return err
		}
		for _, id := range members {
			if err := etcd.Do(ctx, http.MethodPost, "/v3/cluster/member/remove", "", map[string]string{"ID": id}, nil); err != nil {
				return fmt.Errorf("remove %s from etcd: %w", a.Address, err)
			}
		}
	}
	nodes, err := nodesAt(ctx, k, a.Address)
	if err != nil {
		return err
	}
	for _, name := range nodes {
		if err := k.Do(ctx, http.MethodDelete, "/api/v1/nodes/"+url.PathEscape(name), "", nil, nil); err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

// nodesAt are the names of the nodes whose address is the given one.
func nodesAt(ctx context.Context, k *kube.Client, address string) ([]string, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Status struct {
				Addresses []struct {
					Type    string `json:"type"`
					Address string `json:"address"`
				} `json:"addresses"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := k.Do(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &list); err != nil {
		return nil, err
	}
	var out []string
	for _, n := range list.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == "InternalIP" && a.Address == address && !slices.Contains(out, n.Metadata.Name) {
				out = append(out, n.Metadata.Name)
			}
		}
	}
	return out, nil
}

// members are the IDs of the members of this master's etcd whose peers reach them
// at an address, and a client of that etcd: of its gateway, which speaks JSON
// (etcd, "gRPC gateway"). There are none where kubeadm keeps no etcd.
func (w *Work) members(ctx context.Context, address string) (*kube.Client, []string, error) {
	const pki = "/etc/kubernetes/pki/etcd"
	c := kube.Config{Server: "https://127.0.0.1:2379"}
	for name, to := range map[string]*[]byte{"ca.crt": &c.CA, "healthcheck-client.crt": &c.Certificate, "healthcheck-client.key": &c.Key} {
		b, err := os.ReadFile(w.Path(path.Join(pki, name)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		*to = b
	}
	k, err := kube.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: %w", err)
	}
	var list struct {
		Members []struct {
			ID       string   `json:"ID"`
			PeerURLs []string `json:"peerURLs"`
		} `json:"members"`
	}
	if err := k.Do(ctx, http.MethodPost, "/v3/cluster/member/list", "", struct{}{}, &list); err != nil {
		return nil, nil, fmt.Errorf("etcd: %w", err)
	}
	var out []string
	for _, m := range list.Members {
		at := slices.ContainsFunc(m.PeerURLs, func(text string) bool {
			u, err := url.Parse(text)
			return err == nil && u.Hostname() == address
		})
		if at {
			out = append(out, m.ID)
		}
	}
	return k, out, nil
}
