package redirect

import (
	"fmt"

	"github.com/clusterimage/sealer/registry/ref"
)

// waitView is the data of the template of the wait script.
type waitView struct {
	Redirect
	Script, Resource string
	Image, Want      string // the image of the probe pod, before and after the redirect
}

// QuotedSelector returns the selector as one word of a shell.
func (v waitView) QuotedSelector() string { return "'" + v.NamespaceSelector + "'" }

// WaitScriptName returns the wait script's name, without .sh.
func (d Redirect) WaitScriptName() string {
	if d.Engine == AdmissionPolicy {
		return "wait-redirect-ready"
	}
	return "wait-kyverno-ready"
}

// WaitScript returns a POSIX shell script that ends once the redirect works in
// kubectl's cluster. For Containerd, which works at once, it returns an error;
// other errors are those of Validate.
func (d Redirect) WaitScript() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	d = d.WithDefaults()
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
		Redirect: d, Script: d.WaitScriptName(), Resource: resources[d.Engine],
		Image: probe.String(), Want: target.String(),
	})
}

// probe returns an image that the redirect covers, and its target. The image
// need not exist: the script creates its pod in a dry run.
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
	return probe, d.Rename(probe)
}
