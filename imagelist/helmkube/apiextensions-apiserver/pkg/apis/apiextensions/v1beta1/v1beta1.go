// Package v1beta1 stands in for the package of the same name of Kubernetes' API server
// for custom resources.
package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// AddToScheme adds this version's name.
func AddToScheme(v *scheme.Versions) error {
	v.Add(schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1beta1"})
	return nil
}
