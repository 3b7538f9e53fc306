// Package scheme stands in for the package of the same name of Kubernetes'
// client: the API versions that it knows, without their types.
package scheme

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Versions lists API versions.
type Versions struct{ all []schema.GroupVersion }

// Scheme has the versions of k8s.io/api v0.37.0 that are registered there.
var Scheme = builtin()

var groups = []struct{ name, versions string }{
	{"admissionregistration.k8s.io", "v1 v1alpha1 v1beta1"},
	{"apps", "v1 v1beta1 v1beta2"},
	{"authentication.k8s.io", "v1 v1alpha1 v1beta1"},
	{"authorization.k8s.io", "v1 v1beta1"},
	{"autoscaling", "v1 v2"},
	{"batch", "v1 v1beta1"},
	{"certificates.k8s.io", "v1 v1alpha1 v1beta1"},
	{"coordination.k8s.io", "v1 v1alpha2 v1beta1"},
	{"discovery.k8s.io", "v1 v1beta1"},
	{"events.k8s.io", "v1 v1beta1"},
	{"extensions", "v1beta1"},
	{"flowcontrol.apiserver.k8s.io", "v1 v1beta1 v1beta2 v1beta3"},
	{"internal.apiserver.k8s.io", "v1alpha1"},
	{"lifecycle.k8s.io", "v1alpha1"},
	{"networking.k8s.io", "v1 v1beta1"},
	{"node.k8s.io", "v1 v1alpha1 v1beta1"},
	{"policy", "v1 v1beta1"},
	{"rbac.authorization.k8s.io", "v1 v1alpha1 v1beta1"},
	{"resource.k8s.io", "v1 v1alpha3 v1beta1 v1beta2"},
	{"scheduling.k8s.io", "v1 v1alpha3 v1beta1"},
	{"storage.k8s.io", "v1 v1alpha1 v1beta1"},
	{"storagemigration.k8s.io", "v1 v1beta1"},
	{"", "v1"},
}

func builtin() *Versions {
	v := &Versions{}
	for _, g := range groups {
		for version := range strings.FieldsSeq(g.versions) {
			v.Add(schema.GroupVersion{Group: g.name, Version: version})
		}
	}
	return v
}

// Add adds a version.
func (v *Versions) Add(gv schema.GroupVersion) { v.all = append(v.all, gv) }

// PrioritizedVersionsAllGroups returns all versions, sorted by group.
func (v *Versions) PrioritizedVersionsAllGroups() []schema.GroupVersion { return v.all }
