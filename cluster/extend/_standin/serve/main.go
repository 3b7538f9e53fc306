package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	sealerplugin "github.com/alibaba/sealer/plugin"
	sealerv1 "github.com/alibaba/sealer/types/api/v1"
	sealerv2 "github.com/alibaba/sealer/types/api/v2"
)

// sealerRequest is the JSON object that sealer writes to stdin.
type sealerRequest struct {
	Op     string `json:"op"`
	Phase  string `json:"phase"`
	Plugin struct {
		Name string `json:"name"`
		sealerv1.PluginSpec
	} `json:"plugin"`
	Cluster struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Image       string            `json:"image"`
		Env         []string          `json:"env"`
		Hosts       []struct {
			IPS   []string `json:"ips"`
			Roles []string `json:"roles"`
			Env   []string `json:"env"`
		} `json:"hosts"`
	} `json:"cluster"`
	Hosts      []string `json:"hosts"`
	Rootfs     string   `json:"rootfs"`
	Kubeconfig string   `json:"kubeconfig"`
}

type sealerResponse struct {
	Type  string `json:"type,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	answers := os.Stdout
	os.Stdout = os.Stderr // the plugin's own output is for people
	var req sealerRequest
	res := sealerResponse{}
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(text, &req)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("read the request: %w", err)
	case req.Op == "describe":
		res.Type = sealerPluginType
	case req.Op == "run":
		err = sealerRun(req)
	default:
		err = fmt.Errorf("unknown operation %q", req.Op)
	}
	if err != nil {
		res.Error = err.Error()
	}
	if err := json.NewEncoder(answers).Encode(res); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sealerRun(req sealerRequest) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if req.Kubeconfig != "" {
		os.Setenv("KUBECONFIG", req.Kubeconfig)
	} else {
		os.Unsetenv("KUBECONFIG")
	}
	if req.Rootfs != "" {
		os.Setenv("PATH", filepath.Join(req.Rootfs, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	two := &sealerv2.Cluster{}
	two.Name, two.Annotations, two.Spec.Image, two.Spec.Env = req.Cluster.Name, req.Cluster.Annotations, req.Cluster.Image, req.Cluster.Env
	one := &sealerv1.Cluster{}
	one.Name, one.Annotations, one.Spec.Image, one.Spec.Env = two.Name, two.Annotations, two.Spec.Image, two.Spec.Env
	for _, h := range req.Cluster.Hosts {
		two.Spec.Hosts = append(two.Spec.Hosts, sealerv2.Host{IPS: h.IPS, Roles: h.Roles, Env: h.Env})
	}
	one.Spec.Masters.IPList, one.Spec.Nodes.IPList = two.GetMasterIPList(), two.GetNodeIPList()
	plugin := &sealerv1.Plugin{Spec: req.Plugin.PluginSpec}
	plugin.Name = req.Plugin.Name
	switch p := any(&Plugin).(type) {
	case sealerplugin.Interface:
		return p.Run(sealerplugin.Context{Plugin: plugin, Cluster: two, Host: req.Hosts}, sealerplugin.Phase(req.Phase))
	case interface{ Exec(*sealerv1.Cluster) error }:
		return p.Exec(one)
	}
	return fmt.Errorf("the variable Plugin has neither Run(plugin.Context, plugin.Phase) error nor Exec(*v1.Cluster) error")
}
