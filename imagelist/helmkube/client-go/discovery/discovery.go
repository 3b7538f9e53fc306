// Package discovery stands in for the package of the same name of Kubernetes'
// client.
package discovery

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A Client would ask a cluster for its API resources.
type Client struct{}

// NewDiscoveryClientForConfig returns an error: no cluster is asked.
func NewDiscoveryClientForConfig(*rest.Config) (*Client, error) {
	return nil, errors.ErrUnsupported
}

// ServerResourcesForGroupVersion returns an error: no cluster is asked.
func (*Client) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, errors.ErrUnsupported
}
