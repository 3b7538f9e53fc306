package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// Input is all that is judged.
type Input struct {
	// File is the Clusterfile: its kubeadm documents, registry and Preflight.
	File *spec.File
	// Nodes are in the order of the Clusterfile.
	Nodes []Node
	// Links are the connections between nodes that were tried; nil when none was.
	Links []plan.Link
	// Archs are the architectures that the image is for; nil when not known.
	Archs []string
	// Kubernetes is the version that the image brings, as v1.33.2; "" when not
	// known.
	Kubernetes string
	// References are the container images inside, which tell the pod network.
	References []string
	// Images says which images the image's kubeadm wants and the image lacks; nil
	// when that was not asked for.
	Images *Wanted
}

// Wanted is the answer of "kubeadm config images list" beside the image.
type Wanted struct {
	Lacks []string // the references that are not inside
	Err   error    // why kubeadm did not answer; nil when it did
}

// A Node is a machine of the cluster.
type Node struct {
	plan.Facts
	// Address is how the Clusterfile names it, and the others reach it.
	Address string
	// Name is its name in the Clusterfile; "" keeps the hostname.
	Name string
	// Master and Registry are its tasks. A node that is no master is a worker.
	Master, Registry bool
	// Ours is set when the machine belongs to this cluster already. The files and
	// the ports of a cluster are no faults there.
	Ours bool
	// Needs are the bytes that will be written there, by path.
	Needs []Space
}

// Space is room that is needed.
type Space struct {
	Path  string
	Bytes int64
}

// A Level says how a check went.
type Level string

// The levels, the worst last.
const (
	Skipped Level = "skipped" // left out, by the Preflight document
	OK      Level = "ok"
	Warn    Level = "warn"
	Fail    Level = "fail"
)

// A Result is the verdict of one check about some hosts.
type Result struct {
	Check   string   `json:"check"`
	Level   Level    `json:"level"`
	Hosts   []string `json:"hosts"`
	Message string   `json:"message,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
}

// A Report is the results of all checks, in the order of the checks.
type Report struct {
	Results []Result `json:"results"`
}

// Count returns how many results have the level.
func (r Report) Count(l Level) int {
	n := 0
	for _, x := range r.Results {
		if x.Level == l {
			n++
		}
	}
	return n
}

// Err returns the failures as one error, a line each; nil without any.
func (r Report) Err() error {
	var errs []error
	for _, x := range r.Results {
		if x.Level == Fail {
			err := fmt.Errorf("%s: %s: %s", x.Check, strings.Join(x.Hosts, ", "), x.Message)
			if x.Remedy != "" {
				err = fmt.Errorf("%w: %s", err, x.Remedy)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// A finding is a fault or a warning of a check about a host.
type finding struct {
	level           Level
	host            string
	message, remedy string
}

// findings collects them.
type findings struct {
	in   Input
	name string
	list []finding
}

func (f *findings) fail(host, remedy, format string, args ...any) {
	f.list = append(f.list, finding{Fail, host, fmt.Sprintf(format, args...), remedy})
}

func (f *findings) warn(host, remedy, format string, args ...any) {
	f.list = append(f.list, finding{Warn, host, fmt.Sprintf(format, args...), remedy})
}

// A check is a name and a function that collects faults.
type check struct {
	name string
	run  func(*findings)
}

// checks returns all of them, in the order of the report.
func checks() []check {
	return slices.Concat(machineChecks(), identityChecks(), networkChecks(), diskChecks(), imageChecks())
}

// Names returns the names of the checks, which a Preflight document may skip.
func Names() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// Run judges. The error is about the Preflight document: a check that does not
// exist, a threshold that is no value; all faults at once.
func Run(in Input) (Report, error) {
	skip := map[string]string{}
	if err := in.document(skip); err != nil {
		return Report{}, err
	}
	var all []string
	for _, n := range in.Nodes {
		all = append(all, n.Host)
	}
	var r Report
	for _, c := range checks() {
		if reason, ok := skip[c.name]; ok {
			r.Results = append(r.Results, Result{Check: c.name, Level: Skipped, Hosts: all, Message: reason})
			continue
		}
		f := &findings{in: in, name: c.name}
		c.run(f)
		r.Results = append(r.Results, f.results(all)...)
	}
	return r, nil
}

// document checks the Preflight document and adds its skipped checks, with
// their reasons, to skip.
func (in Input) document(skip map[string]string) error {
	if in.File == nil || in.File.Preflight == nil {
		return nil
	}
	var errs []error
	names := Names()
	for _, s := range in.File.Preflight.Skip {
		switch {
		case !slices.Contains(names, s.Check):
			//lint:ignore ST1005 Preflight is the name of the document
			errs = append(errs, fmt.Errorf("Preflight: skip %q: there is no such check: %s", s.Check, strings.Join(names, ", ")))
		case strings.TrimSpace(s.Reason) == "":
			//lint:ignore ST1005 Preflight is the name of the document
			errs = append(errs, fmt.Errorf("Preflight: skip %s: say the reason", s.Check))
		}
		skip[s.Check] = s.Reason
	}
	return errors.Join(append(errs, in.checkThresholds()...)...)
}

// results groups equal findings of several hosts; without any, all is well.
func (f *findings) results(all []string) []Result {
	if len(f.list) == 0 {
		return []Result{{Check: f.name, Level: OK, Hosts: all}}
	}
	var out []Result
	for _, x := range f.list {
		i := slices.IndexFunc(out, func(r Result) bool {
			return r.Level == x.level && r.Message == x.message && r.Remedy == x.remedy
		})
		if i < 0 {
			out = append(out, Result{Check: f.name, Level: x.level, Message: x.message, Remedy: x.remedy})
			i = len(out) - 1
		}
		if !slices.Contains(out[i].Hosts, x.host) {
			out[i].Hosts = append(out[i].Hosts, x.host)
		}
	}
	rank := map[Level]int{Fail: 0, Warn: 1}
	slices.SortStableFunc(out, func(a, b Result) int { return cmp.Compare(rank[a.Level], rank[b.Level]) })
	return out
}
