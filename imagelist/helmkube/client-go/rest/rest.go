// Package rest stands in for the package of the same name of Kubernetes' client.
package rest

// A Config says how to reach a cluster. Discovery reaches none.
type Config struct{}
