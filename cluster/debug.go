package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/cluster/facts"
	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
)

// A BundleReport says what is not in a bundle.
type BundleReport struct {
	Files   int      // in the bundle
	Missing []string // each a machine or a part of the cluster, and why
}

// Bounds of a bundle.
const (
	maxBundled  = 4 << 20 // bytes of one file
	bundleAsks  = 30 * time.Second
	bundleLimit = 5 * time.Minute // of one machine
)

// Bundle writes a compressed tar of what helps to find a fault in the cluster of
// f: this machine's notes about it, of every machine its facts, its journal and the
// last lines of its services, and the cluster's nodes, pods and events. Secrets
// are taken out of all of it. A machine that does not answer is in the report, and
// no error.
func Bundle(ctx context.Context, o Options, f *spec.File, w io.Writer) (BundleReport, error) {
	e, err := newEngine(o, f)
	if err != nil {
		return BundleReport{}, err
	}
	files := []*spec.File{f}
	apps, err := e.state.applications()
	for _, a := range apps {
		if file, perr := spec.Parse(applicationsFile, []byte(a.Clusterfile)); perr == nil {
			files = append(files, file)
		}
	}
	z := gzip.NewWriter(w)
	b := &bundle{engine: e, redactor: newRedactor(files...), tar: tar.NewWriter(z), begin: time.Now().UTC()}
	b.missing("applications", err)
	b.own()
	nodes, err := f.Cluster.Nodes()
	b.missing("machines", err)
	var wg sync.WaitGroup
	limit := make(chan struct{}, e.Parallel)
	for _, n := range nodes {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeoutCause(ctx, bundleLimit, fmt.Errorf("not within %v", bundleLimit))
			defer cancel()
			b.missing(n.Address.String(), b.machine(ctx, n))
		})
	}
	wg.Go(func() { b.missing("API server", b.cluster(ctx)) })
	wg.Wait()
	slices.Sort(b.report.Missing)
	b.add("missing.txt", strings.Join(append(slices.Clone(b.report.Missing), ""), "\n"))
	return b.report, errors.Join(b.err, b.tar.Close(), z.Close(), context.Cause(ctx))
}

type bundle struct {
	*engine
	*redactor
	begin time.Time

	mu     sync.Mutex
	tar    *tar.Writer
	report BundleReport
	err    error // of the writer
}

func (b *bundle) missing(what string, err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.Missing = append(b.report.Missing, b.text(strings.ReplaceAll(what+": "+err.Error(), "\n", " ")))
}

// add writes a file without its secrets. The tar has one directory.
func (b *bundle) add(name, content string) {
	content = b.text(content)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = b.tar.WriteHeader(&tar.Header{Name: path.Join("sealer-bundle", name), Mode: 0o600, Size: int64(len(content)), ModTime: b.begin})
	}
	if b.err == nil {
		_, b.err = io.WriteString(b.tar, content)
		b.report.Files++
	}
}

func (b *bundle) addJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		b.add(name, string(text)+"\n")
	}
	return err
}

// own adds the notes of this machine.
func (b *bundle) own() {
	text, err := spec.Print(b.file)
	b.missing("Clusterfile", err)
	b.add("Clusterfile", string(text))
	for _, name := range []string{planFile, proofFile, applicationsFile} {
		text, err := os.ReadFile(filepath.Join(b.state.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		b.missing(name, err)
		b.add(name, string(text))
	}
}

// machine adds what one machine has.
func (b *bundle) machine(ctx context.Context, n spec.Node) (err error) {
	fl, err := fleet.Reach(ctx, []spec.Node{n}, b.SSH, sources(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close()) }()
	m := &machine{Node: n, local: fl.Machines[0].Local, host: fl.Machines[0].Host}
	if err := b.engine.begin(ctx, m); err != nil {
		return err
	}
	defer func() { _ = m.conn.Close() }()
	dir := "machines/" + strings.ReplaceAll(m.name(), ":", "_")
	fact, err := facts.Ask(ctx, m.conn, m.name(), facts.Options{})
	if err == nil {
		err = b.addJSON(dir+"/facts.json", fact)
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := b.unpack(dir, r)
		done <- errors.Join(err, r.CloseWithError(err))
	}()
	cerr := m.conn.Call(ctx, node.OpDebug, node.DebugRequest{Cluster: b.file.Cluster.Name}, nil, wire.Streams{Output: w})
	return errors.Join(err, cerr, w.CloseWithError(cerr), <-done)
}

// unpack adds the files of a machine's tar.
func (b *bundle) unpack(dir string, r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		if !fs.ValidPath(h.Name) || h.Typeflag != tar.TypeReg {
			return fmt.Errorf("the machine sent a file %q", h.Name)
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, io.LimitReader(t, maxBundled)); err != nil {
			return err
		}
		b.add(dir+"/"+h.Name, text.String())
	}
}

// The parts of objects that go into a bundle: no environment, no arguments, no
// annotations.
type (
	bundledPod struct {
		Metadata bundledMeta `json:"metadata"`
		Spec     struct {
			NodeName       string             `json:"nodeName,omitempty"`
			InitContainers []bundledContainer `json:"initContainers,omitempty"`
			Containers     []bundledContainer `json:"containers,omitempty"`
		} `json:"spec"`
		Status json.RawMessage `json:"status,omitempty"`
	}
	bundledContainer struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	bundledMeta struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace,omitempty"`
		Labels    map[string]string `json:"labels,omitempty"`
		Created   string            `json:"creationTimestamp,omitempty"`
		Deleted   string            `json:"deletionTimestamp,omitempty"`
	}
	bundledNode struct {
		Metadata bundledMeta     `json:"metadata"`
		Spec     json.RawMessage `json:"spec,omitempty"`
		Status   json.RawMessage `json:"status,omitempty"`
	}
	bundledEvent struct {
		About struct {
			Kind      string `json:"kind"`
			Namespace string `json:"namespace,omitempty"`
			Name      string `json:"name"`
		} `json:"involvedObject"`
		Type    string `json:"type"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
		Count   int    `json:"count,omitempty"`
		Last    string `json:"lastTimestamp,omitempty"`
	}
)

// cluster adds what the API server tells.
func (b *bundle) cluster(ctx context.Context) error {
	config, err := kube.ReadConfig(filepath.Join(b.state.dir, "kubeconfig"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the cluster does not run yet: there is no kubeconfig of it")
	}
	if err != nil {
		return err
	}
	client, err := kube.New(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bundleAsks, fmt.Errorf("not within %v", bundleAsks))
	defer cancel()
	var version json.RawMessage
	if err := client.Do(ctx, http.MethodGet, "/version", "", nil, &version); err != nil {
		return err
	}
	b.add("cluster/version.json", string(version))
	return errors.Join(
		listed[bundledNode](ctx, b, client, "nodes"),
		listed[bundledPod](ctx, b, client, "pods"),
		listed[bundledEvent](ctx, b, client, "events"),
	)
}

// listed adds a collection of the core API.
func listed[T any](ctx context.Context, b *bundle, client *kube.Client, name string) error {
	var all []T
	err := client.List(ctx, "/api/v1/"+name, func(raw json.RawMessage) error {
		var o T
		err := json.Unmarshal(raw, &o)
		all = append(all, o)
		return err
	})
	return errors.Join(err, b.addJSON("cluster/"+name+".json", all))
}
