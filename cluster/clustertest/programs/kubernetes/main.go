// Command hyper is kubeadm and the control plane of Kubernetes in one file: the
// name that it is started by selects the program. One link takes a third of the
// time of five, and the images of the programs share one layer.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kubeadm" { // has a main of its own
		kubeadmutil.CheckErr(kubeadm.Run())
		return
	}
	programs := map[string]func() *cobra.Command{
		"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-proxy":              proxy.NewProxyCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	program, ok := programs[name]
	if !ok {
		known := []string{"kubeadm"}
		for p := range programs {
			known = append(known, p)
		}
		slices.Sort(known)
		fmt.Fprintf(os.Stderr, "hyper: %q is none of %v\n", name, known)
		os.Exit(2)
	}
	os.Exit(cli.Run(program()))
}
