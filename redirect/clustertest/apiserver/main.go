// Command apiserver is kube-apiserver, for `make test-cluster`. It is a module of
// its own: no package of sealer needs Kubernetes.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
