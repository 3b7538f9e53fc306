// Package v1 stands in for types/api/v1 of sealer 0.8.
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Plugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PluginSpec `json:"spec,omitempty"`
}

type PluginSpec struct {
	Type   string `json:"type,omitempty"`
	Data   string `json:"data,omitempty"`
	Action string `json:"action,omitempty"`
	On     string `json:"on,omitempty"`
	Scope  string `json:"scope,omitempty"`
}

type SSH struct {
	Encrypted bool   `json:"encrypted,omitempty"`
	User      string `json:"user,omitempty"`
	Passwd    string `json:"passwd,omitempty"`
	Pk        string `json:"pk,omitempty"`
	PkPasswd  string `json:"pkPasswd,omitempty"`
	Port      string `json:"port,omitempty"`
}

type Hosts struct {
	IPList []string `json:"ipList,omitempty"`
}

type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec `json:"spec,omitempty"`
}

type ClusterSpec struct {
	Image    string   `json:"image,omitempty"`
	Env      []string `json:"env,omitempty"`
	Provider string   `json:"provider,omitempty"`
	SSH      SSH      `json:"ssh,omitempty"`
	CertSANS []string `json:"certSANS,omitempty"`
	Masters  Hosts    `json:"masters,omitempty"`
	Nodes    Hosts    `json:"nodes,omitempty"`
}
