// Package dynamic stands in for the package of the same name of Kubernetes'
// client.
package dynamic

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A ResourceInterface reads objects of one kind.
type ResourceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// A NamespaceableResourceInterface reads those of one namespace, too.
type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

// An Interface reads objects of any kind.
type Interface interface {
	Resource(resource schema.GroupVersionResource) NamespaceableResourceInterface
}

// NewForConfig returns an error: no cluster is asked.
func NewForConfig(*rest.Config) (Interface, error) { return nil, errors.ErrUnsupported }
