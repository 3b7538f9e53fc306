package kubeadm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// convert translates a document of kubeadm to another API version, where the
// versions differ. Arguments become lists in any case, so that documents can be
// merged. Documents of kubelet and kube-proxy stay as they are. The errors name
// the fields that the target version does not have.
func convert(d spec.Document, api string) (spec.Document, error) {
	if d.Kind == kindKubelet || d.Kind == kindProxy {
		return d, nil
	}
	out := spec.Document{APIVersion: api, Kind: d.Kind, Tree: clone(d.Tree).(tree)}
	if out.Tree == nil {
		out.Tree = tree{}
	}
	var errs []error
	switch d.APIVersion {
	case "", v1beta2, v1beta3, v1beta4, "kubeadm.k8s.io/v1beta1":
	default:
		errs = append(errs, fmt.Errorf("%s: unknown apiVersion %s: write %s", d.Kind, d.APIVersion, api))
	}
	delete(out.Tree, "metadata")
	errs = append(errs, shapes(out)...)
	for _, p := range args() {
		if in := parent(out.Tree, p); in != nil && in[p[len(p)-1]] != nil {
			in[p[len(p)-1]] = argList(in[p[len(p)-1]])
		}
	}
	if api == v1beta4 {
		timeouts(out)
	} else {
		errs = append(errs, tooNew(out, api)...)
	}
	if api != v1beta2 { // gone since v1beta3
		delete(out.Tree, "useHyperKubeImage")
		if dns, ok := out.Tree["dns"].(tree); ok {
			delete(dns, "type")
		}
	}
	return out, errors.Join(errs...)
}

// shapes reports the fields that must be a mapping or a list and are not.
// Without the report, this package would replace their values.
func shapes(d spec.Document) []error {
	var errs []error
	for _, k := range []string{"nodeRegistration", "localAPIEndpoint", "controlPlane", "discovery", "apiServer", "dns", "patches", "timeouts"} {
		if v := d.Tree[k]; v != nil {
			if _, ok := v.(tree); !ok {
				errs = append(errs, fmt.Errorf("%s: %s must be a mapping, not %v", d.Kind, k, v))
			}
		}
	}
	for _, p := range [][]string{{"bootstrapTokens"}, {"apiServer", "certSANs"}, {"nodeRegistration", "ignorePreflightErrors"}, {"nodeRegistration", "taints"}} {
		if v := at(d.Tree, p...); v != nil {
			list, ok := v.([]any)
			if !ok {
				errs = append(errs, fmt.Errorf("%s: %s must be a list", d.Kind, strings.Join(p, ".")))
			}
			texts := p[len(p)-1] == "certSANs" || p[len(p)-1] == "ignorePreflightErrors"
			for _, e := range list {
				if _, ok := e.(string); texts && !ok {
					errs = append(errs, fmt.Errorf("%s: %s: %v is no text", d.Kind, strings.Join(p, "."), e))
				}
			}
		}
	}
	return errs
}

// timeouts moves the timeouts into the one mapping that v1beta4 has for them.
// The timeout of the control plane moved to another document: v1beta3 had it in
// ClusterConfiguration, and split makes a part for it.
func timeouts(d spec.Document) {
	if discovery, ok := d.Tree["discovery"].(tree); ok && discovery["timeout"] != nil {
		t := sub(d.Tree, "timeouts")
		if t["discovery"] == nil {
			t["discovery"] = discovery["timeout"]
		}
		delete(discovery, "timeout")
	}
	if server, ok := d.Tree["apiServer"].(tree); ok {
		delete(server, "timeoutForControlPlane")
	}
}

// newer are the fields that came with v1beta4.
func newer() [][]string {
	return [][]string{
		{"timeouts"}, {"certificateValidityPeriod"}, {"caCertificateValidityPeriod"}, {"encryptionAlgorithm"}, {"proxy"},
		{"dns", "disabled"}, {"nodeRegistration", "imagePullSerial"}, {"dryRun"},
		{"apiServer", "extraEnvs"}, {"controllerManager", "extraEnvs"}, {"scheduler", "extraEnvs"}, {"etcd", "local", "extraEnvs"},
	}
}

func tooNew(d spec.Document, api string) []error {
	var errs []error
	for _, p := range newer() {
		if at(d.Tree, p...) != nil {
			errs = append(errs, fmt.Errorf("%s: %s came with %s (Kubernetes 1.31): the image's kubeadm reads %s: remove it",
				d.Kind, strings.Join(p, "."), v1beta4, api))
		}
	}
	return errs
}

// split divides a document whose fields belong in several documents: the
// KubeadmConfig of sealer 0.9, whose spec holds the fields of all kinds, and a
// document with the control plane's timeout.
func split(d spec.Document, api string) []spec.Document {
	if d.Kind == "KubeadmConfig" {
		return splitAll(d, api)
	}
	out := []spec.Document{d}
	if t := at(d.Tree, "apiServer", "timeoutForControlPlane"); api == v1beta4 && d.Kind == kindCluster && t != nil {
		for _, kind := range []string{kindInit, kindJoin} {
			out = append(out, spec.Document{Kind: kind, Tree: tree{"timeouts": tree{"controlPlaneComponentHealthCheck": t}}})
		}
	}
	return out
}

// kindOf says which kind has a field; where two have it, Init.
func kindOf(field string) string {
	switch field {
	case "bootstrapTokens", "nodeRegistration", "localAPIEndpoint", "certificateKey", "skipPhases", "patches", "timeouts":
		return kindInit
	case "etcd", "networking", "kubernetesVersion", "controlPlaneEndpoint", "apiServer", "controllerManager", "scheduler", "dns",
		"certificatesDir", "imageRepository", "featureGates", "clusterName", "useHyperKubeImage",
		"certificateValidityPeriod", "caCertificateValidityPeriod", "encryptionAlgorithm", "proxy":
		return kindCluster
	case "discovery", "controlPlane", "caCertPath":
		return kindJoin
	case "mode", "ipvs", "iptables", "nftables", "conntrack", "clusterCIDR", "detectLocal", "detectLocalMode", "bindAddressHardFail",
		"nodePortAddresses", "udpIdleTimeout", "winkernel", "portRange", "configSyncPeriod", "hostnameOverride":
		return kindProxy
	}
	return kindKubelet
}

func splitAll(d spec.Document, api string) []spec.Document {
	from := d.Tree
	if s, ok := from["spec"].(tree); ok {
		from = s
	}
	trees := map[string]tree{}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if k == "metadata" || k == "status" {
			continue
		}
		kind := kindOf(k)
		if trees[kind] == nil {
			trees[kind] = tree{}
		}
		trees[kind][k] = from[k]
	}
	var out []spec.Document
	for _, kind := range []string{kindInit, kindCluster, kindJoin, kindKubelet, kindProxy} {
		if t := trees[kind]; t != nil {
			out = append(out, split(spec.Document{Kind: kind, Tree: t}, api)...)
		}
	}
	return out
}
