package plan

import "time"

// Facts describe one node before any change. They are plain data: collected by
// sealer node, sent as JSON, kept in tests. Each list is sorted. A fact that
// could not be read is listed in Unknown, so that its zero value is not
// mistaken for a fact.
type Facts struct {
	Host string `json:"host"` // its name in the Clusterfile; set by the engine

	OS           string `json:"os"`           // GOOS
	Arch         string `json:"arch"`         // GOARCH
	Distribution string `json:"distribution"` // PRETTY_NAME of os-release
	Kernel       string `json:"kernel"`       // release, as 6.1.0-13-amd64
	Hostname     string `json:"hostname"`
	MachineID    string `json:"machineId,omitempty"`
	ProductUUID  string `json:"productUuid,omitempty"`
	BootID       string `json:"bootId,omitempty"`
	UID          int    `json:"uid"`        // 0 is root
	InitSystem   string `json:"initSystem"` // "systemd", or the name of process 1
	Container    string `json:"container,omitempty"`

	Time     time.Time     `json:"time"`               // of the node's clock
	Clock    time.Duration `json:"clock"`              // ahead of the engine's clock; set by the engine
	ClockErr time.Duration `json:"clockErr,omitempty"` // how far Clock may be off: half the round trip
	TimeSync string        `json:"timeSync,omitempty"` // "synchronised", "unsynchronised": the kernel's own word

	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
	Swap   int64 `json:"swap"`   // bytes in use as swap areas, used or not

	Cgroup      int      `json:"cgroup"` // 1 or 2; hybrid is 1
	Controllers []string `json:"controllers"`

	Addresses    []Address    `json:"addresses"`
	Routes       []Route      `json:"routes"`
	Listening    []Listener   `json:"listening"`
	Nameservers  []string     `json:"nameservers"`
	Hosts        []HostsEntry `json:"hosts,omitempty"` // lines of /etc/hosts
	Proxies      []Variable   `json:"proxies,omitempty"`
	Mounts       []Mount      `json:"mounts"`             // of the paths that sealer writes to
	Modules      []string     `json:"modules"`            // of the kernel, loaded or built in, that a cluster may want
	Loadable     []string     `json:"loadable,omitempty"` // further ones that the node has as files
	Sysctl       []Variable   `json:"sysctl"`
	Units        []Unit       `json:"units,omitempty"`    // only units that matter to a cluster
	Programs     []Program    `json:"programs,omitempty"` // runtimes and tools in PATH
	Leftovers    []string     `json:"leftovers,omitempty"`
	SELinux      string       `json:"selinux,omitempty"` // "enforcing", "permissive"; empty without it
	AppArmor     bool         `json:"apparmor,omitempty"`
	Firewalld    bool         `json:"firewalld,omitempty"` // it runs
	Certificates []Cert       `json:"certificates,omitempty"`

	// Fsync is measured only when asked for: the 99th of 100 durations of
	// writing and flushing 2 KiB where etcd lies.
	Fsync time.Duration `json:"fsync,omitempty"`

	Unknown []Unknown `json:"unknown,omitempty"`
}

// An Address is an address of an interface, loopback left out.
type Address struct {
	Interface string `json:"interface"`
	CIDR      string `json:"cidr"` // 10.0.0.1/24
	MAC       string `json:"mac,omitempty"`
	MTU       int    `json:"mtu"`
}

// A Route is a line of the main routing table.
type Route struct {
	To        string `json:"to"` // CIDR; 0.0.0.0/0 and ::/0 are the default ones
	Via       string `json:"via,omitempty"`
	Interface string `json:"interface"`
}

// A Listener is a port that is taken.
type Listener struct {
	Network string `json:"network"` // tcp or udp
	Address string `json:"address"` // without the port; 0.0.0.0 and :: are all
	Port    int    `json:"port"`
	Program string `json:"program,omitempty"` // of the process that has it; empty when unknown
}

// A HostsEntry is a line of /etc/hosts.
type HostsEntry struct {
	Address string   `json:"address"`
	Names   []string `json:"names"`
}

// A Variable is a name with its value.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"` // of a proxy: without user and password
}

// A Mount is the file system that a path lies on, or would lie on.
type Mount struct {
	Path       string `json:"path"`  // the path asked for, as /var/lib/sealer
	Point      string `json:"point"` // where its file system is mounted
	Type       string `json:"type"`
	Bytes      int64  `json:"bytes"`      // free
	Inodes     int64  `json:"inodes"`     // free; -1 where the file system has no count
	TotalBytes int64  `json:"totalBytes"` // its size
	NoExec     bool   `json:"noexec,omitempty"`
	ReadOnly   bool   `json:"readOnly,omitempty"`
}

// A Unit is a unit of systemd.
type Unit struct {
	Name    string `json:"name"`   // docker.service
	Active  bool   `json:"active"` // it has processes
	Enabled bool   `json:"enabled"`
}

// A Program is an executable file.
type Program struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// A Cert is a certificate of an existing cluster.
type Cert struct {
	Path  string    `json:"path"`
	Until time.Time `json:"until"`
}

// Unknown is a fact that could not be read, with the cause.
type Unknown struct {
	Fact  string `json:"fact"`
	Cause string `json:"cause"`
}

// A Port is a port that one node must be able to reach on another.
type Port struct {
	Network string `json:"network"` // tcp or udp
	Port    int    `json:"port"`
	For     string `json:"for"` // "API server"
}

// A Link is a connection between two nodes that was tried.
type Link struct {
	From string `json:"from"` // Facts.Host of both
	To   string `json:"to"`
	Port
	// Cause says why it failed; empty when it went well.
	Cause string `json:"cause,omitempty"`
}
