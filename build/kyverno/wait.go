package kyverno

import (
	"fmt"

	"github.com/clusterimage/sealer/registry/ref"
)

// waitView is what the template of the wait script sees.
type waitView struct {
	Redirect
	Script, Resource string
	Image, Want      string // what a probe asks for and must get
}

// QuotedSelector is the selector as one word of a shell.
func (v waitView) QuotedSelector() string { return "'" + v.NamespaceSelector + "'" }

// script returns the wait script's name, without .sh.
func (d Redirect) script() string {
	if d.Engine == AdmissionPolicy {
		return "wait-redirect-ready"
	}
	return "wait-kyverno-ready"
}

// WaitScript returns a POSIX shell script that returns once the redirect works
// in the cluster that kubectl talks to. Containerd has none: it needs no wait.
func (d Redirect) WaitScript() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d = d.withDefaults()
	resources := map[Engine]string{
		ClusterPolicy:   "clusterpolicies.kyverno.io",
		MutatingPolicy:  "mutatingpolicies.policies.kyverno.io",
		AdmissionPolicy: "mutatingadmissionpolicies.admissionregistration.k8s.io",
	}
	if resources[d.Engine] == "" {
		return nil, fmt.Errorf("wait script: engine %s needs none", d.Engine)
	}
	probe, target := d.probe()
	return render("wait", waitView{
		Redirect: d, Script: d.script(), Resource: resources[d.Engine],
		Image: probe.String(), Want: target.String(),
	})
}

// probe returns an image that the redirect covers and what it must become. A
// dry run pulls nothing, so that it need not exist.
func (d Redirect) probe() (probe, target ref.Reference) {
	for _, i := range d.Images {
		if target, ok := d.Target(i.Reference); ok {
			return i.Reference, target
		}
	}
	probe = ref.Reference{Registry: "probe.invalid", Repository: "redirect/probe", Tag: "1"}
	if registries := d.registries(); len(registries) > 0 {
		probe.Registry = registries[0]
	}
	return probe, d.rename(probe)
}
