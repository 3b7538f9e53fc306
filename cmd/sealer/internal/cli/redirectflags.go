package cli

import (
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/redirect"
)

// redirectFlags are the flags of the commands that write a redirect.
type redirectFlags struct {
	name, registry, selector, admission string
	sources, prefixes                   []string
}

func (r *redirectFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.name, "name", "", "name of the policy (default "+redirect.DefaultName+")")
	f.StringVar(&r.registry, "registry", "", "the private registry, `HOST[:PORT]`")
	f.StringSliceVar(&r.sources, "source-registries", nil, "redirect images from these registries only")
	f.StringVar(&r.selector, "namespace-selector", "", "redirect pods in namespaces with these labels only, such as redirect=on")
	f.StringArrayVar(&r.prefixes, "prefix", nil, "`REGISTRY=PATH` of a registry that keeps each source registry at a path of its own, such as docker.io=docker-hub; may be repeated")
	f.StringVar(&r.admission, "admission-version", "", "version of admissionregistration.k8s.io for an admissionpolicy: v1 (Kubernetes 1.36, the default), v1beta1 (1.34), v1alpha1 (1.32)")
}

// redirect returns the Redirect that the flags describe. A wrong flag is a usage
// error.
func (r *redirectFlags) redirect(engine string) (redirect.Redirect, error) {
	d := redirect.Redirect{
		Name: r.name, PrivateRegistry: r.registry, SourceRegistries: r.sources,
		NamespaceSelector: r.selector, AdmissionVersion: r.admission,
	}
	var err error
	if d.Engine, err = redirect.ParseEngine(engine); err != nil {
		return d, usageError{err}
	}
	for _, s := range r.prefixes {
		p, err := redirect.ParsePrefix(s)
		if err != nil {
			return d, usageError{err}
		}
		d.Prefixes = append(d.Prefixes, p)
	}
	if err := d.Validate(); err != nil {
		return d, usageError{err}
	}
	return d, nil
}
