package plan

import (
	"path"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/spec"
)

// A Want is the cluster that is wanted, with everything looked up that a plan
// needs: Make itself opens nothing.
type Want struct {
	Verb    Verb
	Cluster string // its name
	Hosts   []Host // the masters first

	// APIDomain is the name of the API server, APIPort its port. External is
	// the host:port of a balancer of somebody else; "" means sealer's own on the
	// workers.
	APIDomain string
	APIPort   int
	External  string
	// Pods are the networks of pods, in CIDR notation.
	Pods []string
	// Aliases are lines for /etc/hosts of every machine.
	Aliases []spec.HostAlias
	// RegistryDomain and RegistryPort are where the cluster pulls from.
	RegistryDomain string
	RegistryPort   int
	// RegistryHA puts a registry on every master, else on the first.
	RegistryHA bool
	// Runtime is the container runtime, docker or containerd; "" is the image's.
	Runtime string
	// CA is the certificate of the cluster's small CA, PEM.
	CA string
	// Program is the digest of sealer.
	Program string

	// Full is the image with its container images, for the registry's
	// machines; Rootfs the same image without them, for all others.
	Full, Rootfs ocispec.Descriptor
	// Commands run once the cluster works. Secret is the digest of the cluster's
	// own description, which is kept in a Secret.
	Commands []Command
	Secret   string
	// Apps are applications that were brought to the cluster after it was made,
	// in order.
	Apps []App
	// Applications is the list of them that other operators find on the masters,
	// JSON; "" for none.
	Applications string
	// Plugins are the work of the plugins, in order.
	Plugins []extend.Work
	// AtOnce is how many workers that are nodes already change at the same time;
	// 0 is all. PauseSeconds lie between two such batches.
	AtOnce, PauseSeconds int
	// WaitSeconds bounds each wait; 0 is 600.
	WaitSeconds int
	// Force replaces files in the way that sealer did not make.
	Force bool
}

// A Host is one machine that is wanted.
type Host struct {
	spec.Node
	// Kube is the name of the node in the cluster.
	Kube string
	// Generation is the digest of image, Inputs and all else that makes the
	// rootfs; Inputs that of environment and Configs.
	Generation, Inputs string
	// Kubeadm are kubeadm's documents for this machine.
	Kubeadm string
}

// An App is a ClusterImage without a Kubernetes of its own on a cluster of
// another image: the registries serve its container images too, and the first
// master runs its start commands.
type App struct {
	Image Image
	// Full is the image's manifest.
	Full ocispec.Descriptor
	// Generation is the digest of all that makes the rootfs on the first master,
	// Inputs that of environment and Configs.
	Generation, Inputs string
	Commands           []Command
}

// Base is the directory of a machine that holds all of sealer.
const Base = "/var/lib/sealer"

// Dir is the directory of a cluster on each of its machines.
func Dir(cluster string) string { return path.Join(Base, "data", cluster) }

// The names of the secrets that steps are given, by the engine or by an
// earlier step.
const (
	SecretInputs       = "inputs"
	SecretRegistryCert = "registry.crt"
	SecretRegistryKey  = "registry.key"
	// SecretRegistryCAKey is the key of the registries' authority.
	SecretRegistryCAKey = "ca.key"
	SecretData          = "data"
	SecretEnv           = "env" // the Clusterfile's env for scripts: KEY=VALUE, a NUL between
)

// The sockets of the container runtimes.
const containerdSocket = "/run/containerd/containerd.sock"
