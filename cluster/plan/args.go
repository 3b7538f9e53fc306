package plan

import (
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// BlockArgs are the arguments of the kind "block": marked lines in a file of
// the machine, such as /etc/hosts. The rest of the file stays as it is.
type BlockArgs struct {
	File  string   `json:"file"`
	Mark  string   `json:"mark"` // names the block; one block of a name in a file
	Lines []string `json:"lines"`
	// Later are lines that a later step of the plan puts in their place. A
	// block that has them is not changed back.
	Later []string `json:"later,omitempty"`
}

// ProgramArgs are the arguments of the kind "program": sealer itself, for the
// units, apart from the copy that serves the session.
type ProgramArgs struct {
	Version string `json:"version"` // digest of the program
}

// ScriptArgs are the arguments of the kinds "script" (a script of the image
// that prepares the machine) and "guest" (a start command of the image). No
// check can tell whether a script has done its work: the journal alone
// decides, once for each step.
type ScriptArgs struct {
	Run        string            `json:"run"` // for sh -c
	Dir        string            `json:"dir,omitempty"`
	Generation string            `json:"generation"` // of the rootfs that it runs in; "": in /
	Env        map[string]string `json:"env,omitempty"`
	// Number tells apart commands that are equal.
	Number int `json:"number,omitempty"`
	// Kube gives the script KUBECONFIG.
	Kube bool `json:"kube,omitempty"`
	// Machines are those of the cluster, for plugins at the phases of joining:
	// with others it is other work.
	Machines []string `json:"machines,omitempty"`
}

// ImageArgs are the arguments of the kind "image": the machine's store has the
// image. The engine sends the blobs that lack before the step runs.
type ImageArgs struct {
	Descriptor ocispec.Descriptor `json:"descriptor"` // of the manifest
	Name       string             `json:"name"`       // the name that it gets in the store
}

// RootfsArgs are the arguments of the kind "rootfs": the files of the image,
// changed for this machine, below rootfs/GENERATION, and "current", a link to
// it.
type RootfsArgs struct {
	Image      digest.Digest `json:"image"`      // of its manifest
	Generation string        `json:"generation"` // digest of all that goes into it
	// Inputs is the digest of the environment and the Configs that change the
	// files. They may hold secrets and come as the secret "inputs", JSON.
	Inputs string `json:"inputs,omitempty"`
	// Aside leaves the link "current" as it is: the files are an application's.
	Aside bool `json:"aside,omitempty"`
}

// KubeadmArgs are the arguments of the kinds "kubeadm.init", "kubeadm.admit"
// and "kubeadm.join".
type KubeadmArgs struct {
	// Config are kubeadm's documents, without secrets; of admit nothing.
	Config string `json:"config,omitempty"`
	// Endpoint is the API server's host:port, for join.
	Endpoint string `json:"endpoint,omitempty"`
	Master   bool   `json:"master,omitempty"` // join as a master; admit masters
	// Socket is the container runtime's, unix:///...
	Socket string `json:"socket,omitempty"`
	// Pods are the networks of pods, in CIDR notation. A delete knows the
	// interfaces of the cluster by them.
	Pods []string `json:"pods,omitempty"`
	// Ignore are checks of kubeadm that may fail.
	Ignore []string `json:"ignore,omitempty"`
}

// WaitArgs are the arguments of the kind "kube.wait".
type WaitArgs struct {
	Nodes []string `json:"nodes"` // their names
	// Ready waits for the nodes' condition Ready, and for the pods of
	// kube-system; without it the nodes need only be known.
	Ready   bool `json:"ready,omitempty"`
	Seconds int  `json:"seconds"` // the end of the wait
	// Pause are seconds for which the step goes on waiting afterwards.
	Pause int `json:"pause,omitempty"`
	// Plugin and its phase ask for the step; they tell it apart from others.
	Plugin string `json:"plugin,omitempty"`
}

// LabelArgs are the arguments of the kind "kube.label".
type LabelArgs struct {
	Node   string            `json:"node"`
	Labels map[string]string `json:"labels,omitempty"`
	Remove []string          `json:"remove,omitempty"` // keys of labels that go
	// Plugin and its phase ask for the step; they tell it apart from others.
	Plugin string       `json:"plugin,omitempty"`
	Taints []LabelTaint `json:"taints,omitempty"`
}

// A LabelTaint is a taint that a node is to have, or not to have.
type LabelTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"` // "" with Remove: all
	Remove bool   `json:"remove,omitempty"`
}

// SecretArgs are the arguments of the kind "kube.secret", which writes the
// cluster's own description into a Secret. Its data is handed over as the
// secret "data", JSON.
type SecretArgs struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Digest    string `json:"digest"` // of the data
}

// LeaveArgs are the arguments of the kinds "kube.drain" (the pods of a node are
// asked to go) and "kube.leave" (the node is removed from the cluster).
type LeaveArgs struct {
	Node    string `json:"node"`
	Seconds int    `json:"seconds,omitempty"` // how long pods may take to go
}

// LostArgs are the arguments of the kind "kube.lost": a machine that does not
// answer is removed from the cluster.
type LostArgs struct {
	Address string `json:"address"`
	Master  bool   `json:"master,omitempty"` // it may be a member of etcd
}

// KubeconfigArgs are the arguments of the kind "kubeconfig": hands admin.conf to
// the engine, with a server that is known outside the cluster, too.
type KubeconfigArgs struct {
	Server string `json:"server"` // https://HOST:PORT
}

// LinksArgs are the arguments of the kind "links": programs of the rootfs that
// stand where the machine looks for them.
type LinksArgs struct {
	Generation string            `json:"generation"`
	Links      map[string]string `json:"links"` // path on the machine: path in the rootfs
}

// TreesArgs are the arguments of the kind "trees": directories that a service
// of the cluster fills, and that go with the cluster when they did not exist
// before.
type TreesArgs struct {
	Dirs []string `json:"dirs"`
	// Empty are directories that go only when nothing is in them.
	Empty []string `json:"empty,omitempty"`
}

// SysctlArgs are the arguments of the kind "sysctl".
type SysctlArgs struct {
	Values map[string]string `json:"values"` // net.ipv4.ip_forward: 1
}

// ModulesArgs are the arguments of the kind "modules".
type ModulesArgs struct {
	Names []string `json:"names"`
}

// HostnameArgs are the arguments of the kind "hostname".
type HostnameArgs struct {
	Name string `json:"name"`
}

// FilesArgs are the arguments of the kind "files".
type FilesArgs struct {
	Files []FileArg `json:"files"`
	// Generation is the rootfs that From names a file of.
	Generation string `json:"generation,omitempty"`
}

// A FileArg is one file of the machine.
type FileArg struct {
	To      string `json:"to"`             // absolute
	From    string `json:"from,omitempty"` // in the rootfs; else Content or Secret counts
	Content string `json:"content,omitempty"`
	Secret  string `json:"secret,omitempty"` // the name of a secret that is the content
	Mode    uint32 `json:"mode"`
	Replace bool   `json:"replace,omitempty"` // a file that is not sealer's is saved and replaced
}

// UnitArgs are the arguments of the kind "unit": a service that runs now and
// after each boot.
type UnitArgs struct {
	Name string `json:"name"` // kubelet.service
	// Content is the unit's file; "" with no From means a unit that the machine
	// has already.
	Content string `json:"content,omitempty"`
	From    string `json:"from,omitempty"` // a file of the rootfs of Generation
	// DropIns are further settings, by file name: From names of the rootfs.
	DropIns    map[string]string `json:"dropIns,omitempty"`
	Generation string            `json:"generation,omitempty"`
	// Trigger changes when the service must start anew, as the digest of its
	// configuration does.
	Trigger string `json:"trigger,omitempty"`
	// Ready says when the service works; nil: as soon as it is active.
	Ready *Ready `json:"ready,omitempty"`
	// Idle is a service that need not be active: it waits for files that come
	// later.
	Idle bool `json:"idle,omitempty"`
}

// Ready is how to see that a service works.
type Ready struct {
	Socket string `json:"socket,omitempty"` // a unix socket that takes connections
	URL    string `json:"url,omitempty"`    // answers 200
	CA     string `json:"ca,omitempty"`     // the file with the certificate for URL
}
