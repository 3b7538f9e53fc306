package extend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/spec"
)

// ProtocolVersion is the apiVersion of a Request.
const ProtocolVersion = "sealer.io/plugin/v1"

// The operations of a Request.
const (
	OpDescribe = "describe" // say which type and phases the program is for
	OpRun      = "run"      // do the work
)

// A Request is the JSON object that a program reads on stdin. Passwords of the
// cluster are left out, or stand as their references.
type Request struct {
	APIVersion string        `json:"apiVersion"`
	Op         string        `json:"op"`
	Phase      Phase         `json:"phase,omitempty"`
	Plugin     *spec.Plugin  `json:"plugin,omitempty"`
	Cluster    *spec.Cluster `json:"cluster,omitempty"`
	Hosts      []string      `json:"hosts,omitempty"`      // addresses of the machines that the phase is about
	Rootfs     string        `json:"rootfs,omitempty"`     // the directory of the rootfs, "" when there is none
	Kubeconfig string        `json:"kubeconfig,omitempty"` // a file, "" before the cluster runs
}

// A Response is the JSON object that a program writes on stdout.
type Response struct {
	Type    string   `json:"type,omitempty"`    // describe: the type of plugins that it is for
	Phases  []string `json:"phases,omitempty"`  // describe: the phases at which it works; none is all
	Changes []string `json:"changes,omitempty"` // run: its changes, a line each
	Error   string   `json:"error,omitempty"`   // why the work could not be done
}

// The limits of a Runner.
const (
	describeTimeout = 10 * time.Second
	runTimeout      = 10 * time.Minute
	maxResponse     = 1 << 20
	maxLine         = 4 << 10
	tailLines       = 10
)

// A Runner runs programs that are plugins. The zero Runner works.
type Runner struct {
	Timeout time.Duration     // of one run; 0 is 10 minutes
	Log     func(line string) // gets each line that a program writes to stderr; nil drops it
	Env     []string          // KEY=VALUE beside the environment of sealer
	Dir     string            // the program's directory; "" is sealer's
	SoHost  string            // sealer-sohost; "" is looked up in PATH
}

// ErrTimeout is wrapped where a program did not end in time.
var ErrTimeout = errors.New("did not end in time")

// ErrPlugin is wrapped where a program itself reports an error.
var ErrPlugin = errors.New("the plugin reports")

// Describe asks a program for its type.
func (r Runner) Describe(ctx context.Context, program string) (Response, error) {
	r.Timeout = describeTimeout
	res, err := r.do(ctx, program, Request{APIVersion: ProtocolVersion, Op: OpDescribe})
	if err == nil && res.Type == "" {
		err = errors.New("describe: the answer names no type")
	}
	if err != nil {
		return res, fmt.Errorf("plugin %s: %w", filepath.Base(program), err)
	}
	return res, nil
}

// Run has a program do its work. An error that the program reports wraps
// ErrPlugin; one of a program that did not end wraps ErrTimeout.
func (r Runner) Run(ctx context.Context, program string, req Request) (Response, error) {
	req.APIVersion, req.Op = ProtocolVersion, OpRun
	res, err := r.do(ctx, program, req)
	if err != nil {
		return res, fmt.Errorf("plugin %s: %w", filepath.Base(program), err)
	}
	return res, nil
}

func (r Runner) do(ctx context.Context, program string, req Request) (Response, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return Response{}, err
	}
	args, err := r.command(program)
	if err != nil {
		return Response{}, err
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = runTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = r.Dir
	cmd.Env = append(cmd.Environ(), r.Env...)
	cmd.Stdin = strings.NewReader(string(body) + "\n")
	out, log := &capped{max: maxResponse}, &lines{log: r.Log}
	cmd.Stdout, cmd.Stderr = out, log
	ownGroup(cmd)
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	log.flush()
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrTimeout):
		return Response{}, log.with(fmt.Errorf("%w: %s", ErrTimeout, timeout))
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case out.over:
		return Response{}, fmt.Errorf("the answer is larger than %d bytes", maxResponse)
	case err != nil:
		return Response{}, log.with(err)
	}
	return answer(out.data, log)
}

func answer(data []byte, log *lines) (Response, error) {
	var res Response
	dec := json.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(&res); err != nil {
		return res, log.with(fmt.Errorf("the answer on stdout is no JSON object (lines for people belong on stderr): %w", err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return res, errors.New("the answer on stdout is more than one JSON object: lines for people belong on stderr")
	}
	if res.Error != "" {
		return res, fmt.Errorf("%w: %s", ErrPlugin, res.Error)
	}
	return res, nil
}

// command is how a program is started: .so files by sealer-sohost.
func (r Runner) command(program string) ([]string, error) {
	if path.Ext(program) != ".so" {
		return []string{program}, nil
	}
	host := r.SoHost
	if host == "" {
		var err error
		if host, err = exec.LookPath("sealer-sohost"); err != nil {
			return nil, errors.New("a .so file needs sealer-sohost in PATH, built by the same Go with the same flags as the file: " +
				"better make a program of its source: sealer plugin build FILE.go -o NAME")
		}
	}
	return []string{host, program}, nil
}

// capped keeps up to max bytes and drops the rest, so that the writer goes on.
type capped struct {
	data []byte
	max  int
	over bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.max-len(c.data))
	c.data = append(c.data, p[:n]...)
	c.over = c.over || n < len(p)
	return len(p), nil
}

// lines hands on the lines of stderr and keeps the last ones.
type lines struct {
	log  func(string)
	part []byte
	tail []string
}

func (l *lines) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			l.flush()
		} else if len(l.part) < maxLine {
			l.part = append(l.part, b)
		}
	}
	return len(p), nil
}

func (l *lines) flush() {
	if len(l.part) == 0 {
		return
	}
	line := strings.ToValidUTF8(string(l.part), "?")
	l.part = nil
	if l.log != nil {
		l.log(line)
	}
	l.tail = append(l.tail, line)
	if len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
}

// with adds the last lines to an error.
func (l *lines) with(err error) error {
	if len(l.tail) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(l.tail, " | "))
}

// Programs finds the program of each type that is not built in: the file in
// the rootfs that the plugin names. As sealer 0.8 did, a document may name a .so
// file (metadata.name: list_nodes.so); a program without the .so counts, too, and
// more.
func Programs(plugins []spec.Plugin, files []string) map[string]string {
	types := map[string]string{}
	for _, p := range plugins {
		for _, name := range []string{strings.TrimSuffix(p.Name, ".so"), p.Name} {
			i := slices.IndexFunc(files, func(f string) bool { return path.Base(f) == name })
			if i >= 0 && types[p.Type] == "" {
				types[p.Type] = files[i]
			}
		}
	}
	return types
}

// NewRequest makes the request of a plugin's run. The cluster's hosts are
// listed address by address, without ranges and ports. nodes are the nodes that
// the phase is about; nil is all.
func NewRequest(p spec.Plugin, phase Phase, c spec.Cluster, nodes []spec.Node) (Request, error) {
	all, err := c.Nodes()
	if err != nil {
		return Request{}, err
	}
	if nodes == nil {
		nodes = all
	}
	c.Hosts = nil
	for _, n := range all {
		c.Hosts = append(c.Hosts, spec.Host{
			IPs: []string{n.Address.String()}, Name: n.Name, Roles: n.Roles, SSH: n.SSH, Env: n.Env, Labels: n.Labels, Taints: n.Taints,
		})
	}
	req := Request{Phase: phase, Plugin: &p, Cluster: &c}
	for _, n := range nodes {
		req.Hosts = append(req.Hosts, n.Address.String())
	}
	return req, nil
}
