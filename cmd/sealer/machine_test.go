package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/clusterimage/sealer/cluster/host/hosttest"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/wire"
)

// fakeMachine is a machine of a script: a real SSH server, and facts that the
// script chooses.
type fakeMachine struct {
	hosttest.Machine
	facts plan.Facts
	clock time.Duration
	uname string
	blind bool // it reaches no other machine
	fresh bool // it lacks sealer, which takes a while to pack and send
	// clusters are those whose journal it has.
	clusters []string
	// steps counts the steps of runs, all of which succeed; nil refuses them.
	steps *atomic.Int64
}

// newFakeMachine makes a machine that passes every check.
func newFakeMachine(name, address string) *fakeMachine {
	m := &fakeMachine{uname: "x86_64"}
	m.Name, m.Listen, m.Password = name, address, "s3cret"
	m.facts = plan.Facts{
		OS: "linux", Arch: "amd64", Kernel: "6.1.0", Hostname: strings.ToLower(name), MachineID: "id-" + name, InitSystem: "systemd",
		CPUs: 4, Memory: 8e9, Cgroup: 2, Controllers: []string{"cpu", "cpuset", "memory", "pids"}, TimeSync: "synchronised",
		Addresses: []plan.Address{{Interface: "eth0", CIDR: address + "/24", MTU: 1500}}, Routes: []plan.Route{{To: "0.0.0.0/0", Via: "192.0.2.1", Interface: "eth0"}},
		Nameservers: []string{"192.0.2.53"}, Modules: []string{"br_netfilter", "nf_conntrack", "overlay"},
		Mounts: []plan.Mount{{Path: "/", Point: "/", Bytes: 50e9, TotalBytes: 60e9, Inodes: 1e6}},
	}
	m.Programs = map[string]hosttest.Program{"sh": m.shell, "uname": m.shell, "false": func(*hosttest.Process) int { return 1 }}
	m.Default = m.program
	return m
}

const machinesKey = "machines"

// machine NAME ADDRESS [KEY=VALUE...] starts a machine on a loopback address and
// puts ADDRESS:PORT in $NAME. Its password is "s3cret". Keys: user, sudo,
// hostname, clock, arch, uname, free, port, leftover, swap,
// cluster, blind, fresh.
func startMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: machine NAME ADDRESS [KEY=VALUE...]")
	}
	name, address := args[0], args[1]
	m := newFakeMachine(name, address)
	for _, a := range args[2:] {
		ts.Check(m.set(a))
	}
	ts.Check(m.Open())
	ts.Defer(m.Stop)
	all, _ := ts.Value(machinesKey).(map[string]*fakeMachine)
	all[name] = m
	ts.Setenv(name, m.Addr())
}

func (m *fakeMachine) set(pair string) (err error) {
	key, value, _ := strings.Cut(pair, "=")
	switch key {
	case "user":
		m.User = value
	case "sudo":
		m.Sudo = value
	case "hostname":
		m.facts.Hostname = value
	case "clock":
		m.clock, err = time.ParseDuration(value)
	case "arch":
		m.facts.Arch = value
	case "uname":
		m.uname = value
	case "free":
		_, err = fmt.Sscan(value, &m.facts.Mounts[0].Bytes)
	case "port":
		l := plan.Listener{Network: "tcp", Address: "0.0.0.0", Program: "haproxy"}
		_, err = fmt.Sscan(value, &l.Port)
		m.facts.Listening = append(m.facts.Listening, l)
	case "leftover":
		m.facts.Leftovers = append(m.facts.Leftovers, value)
	case "swap":
		_, err = fmt.Sscan(value, &m.facts.Swap)
	case "cluster":
		m.clusters = append(m.clusters, value)
	case "blind":
		m.blind = true
	case "fresh":
		m.fresh = true
	default:
		err = fmt.Errorf("machine: no key %q", key)
	}
	return err
}

// machines rekey|stop|known NAME... gives machines another host key,
// ends them, or puts their keys into known_hosts. machines commands NAME prints
// the programs that were run there.
func changeMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: machines rekey|stop|known|commands NAME...")
	}
	all, _ := ts.Value(machinesKey).(map[string]*fakeMachine)
	for _, name := range args[1:] {
		m := all[name]
		if m == nil {
			ts.Fatalf("machines: there is no %s", name)
		}
		switch args[0] {
		case "rekey":
			ts.Check(m.Rekey())
		case "stop":
			m.Stop()
		case "known":
			file := filepath.Join(ts.Getenv("HOME"), ".ssh", "known_hosts")
			ts.Check(os.MkdirAll(filepath.Dir(file), 0o700))
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			ts.Check(err)
			_, err = f.WriteString(m.KnownHosts())
			ts.Check(errors.Join(err, f.Close()))
		case "commands":
			for _, c := range m.Commands() {
				fmt.Fprintln(ts.Stdout(), name, strings.Join(c, " "))
			}
		}
	}
}

// shell is what the machine's sh and uname do.
func (m *fakeMachine) shell(p *hosttest.Process) int {
	switch {
	case p.Args[0] == "uname":
		fmt.Fprintln(p.Stdout, m.uname)
	case len(p.Args) > 3 && p.Args[3] == "sealer-probe":
		fmt.Fprintf(p.Stdout, "Linux\n%s\n", m.uname)
	case len(p.Args) > 3 && p.Args[3] == "sealer-install":
		n, err := io.Copy(io.Discard, p.Stdin)
		if err != nil || n == 0 {
			return 1
		}
		m.WriteFile(p.Args[4]+"/"+p.Args[5], nil)
	case strings.Contains(p.Args[2], "|"):
		fmt.Fprint(p.Stdout, "two\nlines")
	default:
		fmt.Fprintln(p.Stderr, "no such thing")
		return 4
	}
	return 0
}

// program is sealer, once it was copied.
func (m *fakeMachine) program(p *hosttest.Process) int {
	own := filepath.Dir(p.Args[0]) == session.DefaultDir && !m.fresh
	if _, ok := m.ReadFile(p.Args[0]); !ok && !own {
		fmt.Fprintf(p.Stderr, "sh: %s: not found\n", p.Args[0])
		return 127
	}
	c, err := wire.New(p.Context(), p.Stdin, p.Stdout, nil, wire.Options{Ops: m.ops()})
	if err != nil {
		return 1
	}
	<-c.Done()
	return 0
}

func (m *fakeMachine) ops() map[string]wire.Handler {
	ops := map[string]wire.Handler{
		node.OpLook: func(context.Context, *wire.Incoming) (any, error) { return plan.Node{Clusters: m.clusters}, nil },
		"facts": func(context.Context, *wire.Incoming) (any, error) {
			f := m.facts
			f.Time = time.Now().Add(m.clock)
			return f, nil
		},
		"clock": func(context.Context, *wire.Incoming) (any, error) { return time.Now().Add(m.clock), nil },
		"ports.listen": func(ctx context.Context, in *wire.Incoming) (any, error) {
			if err := in.Log(ctx, wire.Log{Text: "[]"}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"ports.dial": func(_ context.Context, in *wire.Incoming) (any, error) {
			var targets []json.RawMessage
			if err := in.Decode(&targets); err != nil {
				return nil, err
			}
			causes := make([]string, len(targets))
			for i := range causes {
				if m.blind {
					causes[i] = "no answer within 3s: dropped on the way"
				}
			}
			return causes, nil
		},
	}
	if m.steps != nil {
		maps.Copy(ops, m.stepOps())
	}
	return ops
}

// stepOps are the answers of a machine on which every step succeeds.
func (m *fakeMachine) stepOps() map[string]wire.Handler {
	yes := func(context.Context, *wire.Incoming) (any, error) { return nil, nil }
	return map[string]wire.Handler{
		node.OpOpen: yes, node.OpCheck: yes, node.OpClose: yes, node.OpFetch: yes,
		node.OpServe: yes, node.OpKept: yes,
		node.OpBlob: func(_ context.Context, in *wire.Incoming) (any, error) {
			_, err := io.Copy(io.Discard, in.Input())
			return nil, err
		},
		node.OpStep: func(_ context.Context, in *wire.Incoming) (any, error) {
			var q node.StepRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			m.steps.Add(1)
			var r node.StepResult
			if q.Step.Kind == "kubeconfig" {
				r.Output = map[string]string{"kubeconfig": "kind: Config\n"}
			}
			return r, nil
		},
	}
}
