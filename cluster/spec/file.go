package spec

import (
	"strconv"
	"strings"
)

// The kinds of documents that a Clusterfile may hold, beside those of kubeadm.
const (
	KindCluster     = "Cluster"
	KindConfig      = "Config"
	KindPlugin      = "Plugin"
	KindApplication = "Application"
	KindPreflight   = "Preflight"
)

// A File is a Clusterfile: one cluster with its configs, plugins and further
// documents. The zero File is empty and valid as a layer of Merge.
type File struct {
	Cluster     Cluster      `json:"cluster"`
	Configs     []Config     `json:"configs,omitempty"`
	Plugins     []Plugin     `json:"plugins,omitempty"`
	Application *Application `json:"application,omitempty"`
	// Kubeadm holds the documents of kubeadm, kubelet and kube-proxy. Where two
	// of one kind say different things, the earlier one counts.
	Kubeadm   []Document `json:"kubeadm,omitempty"`
	Preflight *Preflight `json:"preflight,omitempty"`

	// Warnings are told to the user; they do not make the file invalid.
	Warnings []*Fault `json:"-"`

	name   string
	places map[string]place
}

// A Cluster is the document of kind Cluster, metadata and spec in one.
type Cluster struct {
	Name        string            `json:"name,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	Image            string           `json:"image,omitempty"`    // a ClusterImage's reference
	Env              []string         `json:"env,omitempty"`      // KEY=VALUE; a KEY that repeats makes a list
	CmdArgs          []string         `json:"cmd_args,omitempty"` // KEY=VALUE for the image's build arguments in CMD
	Cmd              []string         `json:"cmd,omitempty"`      // instead of the image's CMD
	AppNames         []string         `json:"appNames,omitempty"` // instead of the image's LAUNCH
	Hosts            []Host           `json:"hosts,omitempty"`
	SSH              SSH              `json:"ssh,omitzero"` // for hosts that say nothing else
	ContainerRuntime ContainerRuntime `json:"containerRuntime,omitzero"`
	HostAliases      []HostAlias      `json:"hostAliases,omitempty"`
	Registry         Registry         `json:"registry,omitzero"`
	DataRoot         string           `json:"dataRoot,omitempty"` // "" is /var/lib/sealer/data

	APIServer    APIServer    `json:"apiServer,omitzero"`
	Rollout      Rollout      `json:"rollout,omitzero"`
	Distribution Distribution `json:"distribution,omitzero"`
}

// A Host is an entry of hosts: one or several machines that are alike.
type Host struct {
	IPs    []string          `json:"ips,omitempty"` // addresses, a-b ranges, address:port; see ParseAddresses
	Name   string            `json:"name,omitempty"`
	Roles  []string          `json:"roles,omitempty"` // master, node; others become node-role labels
	SSH    SSH               `json:"ssh,omitzero"`    // over the cluster's, field by field
	Env    []string          `json:"env,omitempty"`   // over the cluster's, key by key
	Labels map[string]string `json:"labels,omitempty"`
	Taints []string          `json:"taints,omitempty"` // key=value:Effect; see ParseTaint
}

// SSH says how a machine is reached. An empty field takes the cluster's value,
// then the default.
type SSH struct {
	User       string `json:"user,omitempty"`       // "" is root
	Passwd     Secret `json:"passwd,omitzero"`      // of the user, for sudo too
	Pk         string `json:"pk,omitempty"`         // path of a private key on the machine that runs sealer
	PkPasswd   Secret `json:"pkPasswd,omitzero"`    // of the private key
	Port       int    `json:"port,omitempty"`       // 0 is 22
	KnownHosts string `json:"knownHosts,omitempty"` // path; "" is ~/.ssh/known_hosts
	Agent      *bool  `json:"agent,omitempty"`      // nil is true: ask the ssh agent where there is one
	Jump       string `json:"jump,omitempty"`       // [user@]host[:port] to go through
	Encrypted  bool   `json:"encrypted,omitempty"`  // passwords are in sealer 0.9's reversible form
}

// ContainerRuntime says which runtime the nodes get.
type ContainerRuntime struct {
	Type string `json:"type,omitempty"` // "" is the image's; docker or containerd
}

// A HostAlias is one line more in /etc/hosts of every node.
type HostAlias struct {
	IP        string   `json:"ip"`
	Hostnames []string `json:"hostnames"`
}

// Registry says where the cluster pulls from.
type Registry struct {
	Local    *LocalRegistry    `json:"localRegistry,omitempty"`
	External *ExternalRegistry `json:"externalRegistry,omitempty"`
}

// A LocalRegistry runs on the masters.
type LocalRegistry struct {
	Domain   string  `json:"domain,omitempty"` // "" is the image's, usually sea.hub
	Port     int     `json:"port,omitempty"`   // 0 is the image's, usually 5000
	Username string  `json:"username,omitempty"`
	Password Secret  `json:"password,omitzero"`
	HA       *bool   `json:"ha,omitempty"`       // nil is true: on all masters, else on the first
	Insecure *bool   `json:"insecure,omitempty"` // nil is false: TLS by the cluster's own CA
	Cert     TLSCert `json:"cert,omitzero"`
}

// TLSCert lists the names that the registry's certificate has beside its own
// domain.
type TLSCert struct {
	SubjectAltName SubjectAltName `json:"subjectAltName,omitzero"`
}

// SubjectAltName lists names and addresses of a certificate.
type SubjectAltName struct {
	DNSNames []string `json:"dnsNames,omitempty"`
	IPs      []string `json:"ips,omitempty"`
}

// An ExternalRegistry is one that exists already.
type ExternalRegistry struct {
	Domain   string `json:"domain"`
	Port     int    `json:"port,omitempty"`
	Username string `json:"username,omitempty"`
	Password Secret `json:"password,omitzero"`
}

// The values of APIServer.Balancer.
const (
	BalancerLocal    = "local"    // sealer-node on each worker
	BalancerLvscare  = "lvscare"  // the image's lvscare
	BalancerExternal = "external" // Endpoint is someone else's balancer
)

// APIServer says how the nodes reach the API server.
type APIServer struct {
	Domain   string `json:"domain,omitempty"`   // "" is apiserver.cluster.local
	Balancer string `json:"balancer,omitempty"` // "" is BalancerLocal
	Endpoint string `json:"endpoint,omitempty"` // host:port, with BalancerExternal
}

// Rollout paces changes of many nodes.
type Rollout struct {
	Workers      string   `json:"workers,omitempty"`      // "10%" or a count at once; "" is 10%
	DrainTimeout Duration `json:"drainTimeout,omitempty"` // 0 is 5m
	Pause        Duration `json:"pause,omitempty"`        // between batches
}

// Distribution says how bytes get to many nodes.
type Distribution struct {
	Mode string `json:"mode,omitempty"` // "" is auto; star, swarm
	Rate string `json:"rate,omitempty"` // bytes a second and sender: 50M; "" is no limit
}

// Bytes are the bytes a second that Rate stands for; 0 is no limit, or a rate
// that Validate refuses. K, M and G are powers of 1000, with an i of 1024.
func (d Distribution) Bytes() int64 {
	m := rateRE.FindStringSubmatch(d.Rate)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0
	}
	base := int64(1000)
	if m[3] != "" {
		base = 1024
	}
	if m[2] != "" {
		for range strings.Index("KMG", m[2]) + 1 {
			n *= base
		}
	}
	return n
}

// The values of Config.Strategy and AppFile.Strategy.
const (
	StrategyOverwrite = "overwrite"
	StrategyMerge     = "merge"
	StrategyRender    = "render" // AppFile only
)

// A Config is a file of the rootfs that is written when a cluster is made.
type Config struct {
	Name     string `json:"name"`
	Path     string `json:"path"`               // in the rootfs, slash-separated
	AppName  string `json:"appName,omitempty"`  // only for this application's directory
	Strategy string `json:"strategy,omitempty"` // "" is StrategyOverwrite
	Process  string `json:"process,omitempty"`  // value, toJson, toBase64, toSecret, joined by |
	Data     string `json:"data,omitempty"`
}

// A Plugin is work at a phase. Package cluster/extend knows types and phases.
type Plugin struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Action string `json:"action,omitempty"` // phases, joined by |
	On     string `json:"on,omitempty"`     // hosts: a list, role=R, or a label selector
	Scope  string `json:"scope,omitempty"`  // roles, joined by |
	Data   string `json:"data,omitempty"`
}

// An Application changes how the applications of an image are started.
type Application struct {
	Name       string      `json:"name,omitempty"`
	Cmds       []string    `json:"cmds,omitempty"`       // instead of all that the image starts
	LaunchApps []string    `json:"launchApps,omitempty"` // these applications, in this order
	Configs    []AppConfig `json:"configs,omitempty"`
}

// An AppConfig is about one application.
type AppConfig struct {
	Name   string    `json:"name"`
	Env    []string  `json:"env,omitempty"` // KEY=VALUE
	Files  []AppFile `json:"files,omitempty"`
	Launch *Launch   `json:"launch,omitempty"`
}

// An AppFile is a file in an application's directory.
type AppFile struct {
	Path     string `json:"path"`               // in application/apps/NAME
	Strategy string `json:"strategy,omitempty"` // "" is StrategyOverwrite
	Data     string `json:"data,omitempty"`
}

// Launch replaces an application's own start commands.
type Launch struct {
	Cmds []string `json:"cmds,omitempty"`
}

// A Document is a YAML document that is kept as a tree.
type Document struct {
	APIVersion string `json:"apiVersion,omitempty"` // "" fits every version
	Kind       string `json:"kind"`
	// Tree is the whole document but apiVersion and kind: map[string]any, []any,
	// string, bool, int64, uint64, float64 and nil.
	Tree map[string]any `json:"tree,omitempty"`
}

// Preflight changes the checks that run before a host is touched.
type Preflight struct {
	Name       string            `json:"name,omitempty"`
	Thresholds map[string]string `json:"thresholds,omitempty"` // by the check's name
	Skip       []Skip            `json:"skip,omitempty"`
}

// A Skip leaves one check out. The reason is printed in every report.
type Skip struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}
