// Package v2 stands in for types/api/v2 of sealer 0.8.
package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/alibaba/sealer/types/api/v1"
)

type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec `json:"spec,omitempty"`
}

type ClusterSpec struct {
	Image string   `json:"image,omitempty"`
	Env   []string `json:"env,omitempty"`
	Hosts []Host   `json:"hosts,omitempty"`
	SSH   v1.SSH   `json:"ssh,omitempty"`
}

type Host struct {
	IPS   []string `json:"ips,omitempty"`
	Roles []string `json:"roles,omitempty"`
	SSH   v1.SSH   `json:"ssh,omitempty"`
	Env   []string `json:"env,omitempty"`
}

func (c *Cluster) byRole(role string) []string {
	var out []string
	for _, h := range c.Spec.Hosts {
		for _, r := range h.Roles {
			if r == role {
				out = append(out, h.IPS...)
				break
			}
		}
	}
	return out
}

func (c *Cluster) GetHostsIPByRole(role string) []string { return c.byRole(role) }
func (c *Cluster) GetMasterIPList() []string             { return c.byRole("master") }
func (c *Cluster) GetNodeIPList() []string               { return c.byRole("node") }

func (c *Cluster) GetMaster0IP() string {
	if m := c.GetMasterIPList(); len(m) > 0 {
		return m[0]
	}
	return ""
}

func (c *Cluster) GetMaster0Ip() string { return c.GetMaster0IP() }

func (c *Cluster) GetAnnotationsByKey(key string) string { return c.Annotations[key] }
