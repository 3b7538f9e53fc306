package spec

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultName is a cluster's name where nothing gives one.
const DefaultName = "my-cluster"

// Flags are the values of the command line about a cluster. The zero value
// changes nothing.
type Flags struct {
	Image    string
	Name     string
	Masters  string // lists as ParseAddresses reads them
	Nodes    string
	User     string
	Passwd   Secret
	Port     int
	Pk       string
	PkPasswd Secret
	Env      []string
	CmdArgs  []string
	Cmds     []string
	Apps     []string
}

// File returns the flags as the topmost layer of Merge. Faults name the flag.
func (o Flags) File() (*File, error) {
	f := &File{name: "flags"}
	f.Cluster = Cluster{
		Name: o.Name, Image: o.Image, Env: o.Env, CmdArgs: o.CmdArgs, Cmd: o.Cmds, AppNames: o.Apps,
		SSH: SSH{User: o.User, Passwd: o.Passwd, Port: o.Port, Pk: o.Pk, PkPasswd: o.PkPasswd},
	}
	var errs []error
	for _, list := range []struct{ flag, value, role string }{
		{"--masters", o.Masters, RoleMaster}, {"--nodes", o.Nodes, RoleNode},
	} {
		if list.value == "" {
			continue
		}
		if _, err := ParseAddresses(list.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", list.flag, err))
			continue
		}
		var words []string
		for w := range strings.SplitSeq(list.value, ",") {
			if w = strings.TrimSpace(w); w != "" {
				words = append(words, w)
			}
		}
		f.Cluster.Hosts = append(f.Cluster.Hosts, Host{IPs: words, Roles: []string{list.role}})
	}
	return f, errors.Join(errs...)
}

// Defaults is the lowest layer of Merge. local is the address of this machine,
// which is the only host, master and node in one, where nothing names hosts;
// with "" hosts stay empty.
func Defaults(local string) *File {
	f := &File{name: "defaults", Cluster: Cluster{Name: DefaultName}}
	if local != "" {
		f.Cluster.Hosts = []Host{{IPs: []string{local}, Roles: []string{RoleMaster, RoleNode}}}
	}
	return f
}
