package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
	"github.com/clusterimage/sealer/store"
)

// proofFile is the name of the last proof in the cluster's directory.
const proofFile = "proof.json"

// Bounds of a proof.
const (
	proofTime = time.Minute            // of one look at the cluster
	proofPoll = 500 * time.Millisecond // between two looks
)

// Prove compares the cluster of the Clusterfile f, which Apply has made, with
// its ClusterImages, and keeps the report in proof.json of the cluster's
// directory. runtimes are what its machines said of themselves (see Runtimes, and
// Report.Runtimes). While containers have not started yet, Prove looks again until
// patience is over; they are in the report's Waiting then, which is no error. An
// error means that the cluster could not be looked at: then the proof of an
// earlier run is kept.
func Prove(ctx context.Context, o Options, f *spec.File, runtimes []proof.Runtime, patience time.Duration) (*proof.Report, error) {
	s := state{filepath.Join(o.State, f.Cluster.Name)}
	config, err := kube.ReadConfig(filepath.Join(s.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	client, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", f.Cluster.Name, err)
	}
	images, err := carried(ctx, o, f)
	if err != nil {
		return nil, err
	}
	r, err := settled(ctx, client, images, runtimes, patience)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := s.write(proofFile, append(b, '\n')); err != nil {
		return nil, fmt.Errorf("keep the proof: %w", err)
	}
	return r, nil
}

// carried reads the ClusterImages of the cluster of f.
func carried(ctx context.Context, o Options, f *spec.File) ([]proof.Carried, error) {
	names, err := Images(o.State, f)
	if err != nil {
		return nil, err
	}
	var images []proof.Carried
	for _, name := range names {
		c, err := Carried(ctx, o.Store, name)
		if err != nil {
			return nil, err
		}
		images = append(images, c...)
	}
	return images, nil
}

// Runtimes asks the machines of the cluster of f which images and containers
// their runtimes have, and their registries whether they serve what is inside the
// ClusterImages. A machine that does not answer is a Runtime with a Fault.
func Runtimes(ctx context.Context, o Options, f *spec.File) ([]proof.Runtime, error) {
	e, err := newEngine(o, f)
	if err != nil {
		return nil, err
	}
	defer e.disconnect()
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	return e.runtimes(ctx)
}

func (e *engine) runtimes(ctx context.Context) ([]proof.Runtime, error) {
	images, err := carried(ctx, e.Options, e.file)
	if err != nil {
		return nil, err
	}
	var manifests []string
	private := ""
	for i, c := range slices.Backward(images) {
		manifests = append(manifests, images[i].Manifests()...)
		private = c.Private() // the first image's is the cluster's
	}
	local := e.file.Cluster.Registry.Local
	_, port, err := registryName(local, private)
	if err != nil {
		return nil, err
	}
	out := make([]proof.Runtime, len(e.machines))
	at := map[*machine]int{}
	for i, m := range e.machines {
		at[m] = i
	}
	return out, e.each(ctx, e.machines, func(ctx context.Context, m *machine) error {
		q := node.RuntimeRequest{Cluster: e.file.Cluster.Name}
		if m == e.machines[0] || m.Master() && (local == nil || local.HA == nil || *local.HA) {
			q.Port, q.Manifests = port, manifests
		}
		var a node.RuntimeState
		r := proof.Runtime{Node: m.kube}
		if err := m.conn.Call(ctx, node.OpState, q, &a, wire.Streams{}); err != nil {
			r.Fault = err.Error()
		} else {
			r = proof.Runtime{Images: a.Images, Containers: a.Containers, Unserved: a.Unserved, Silent: a.Socket == ""}
			r.Node = strings.ToLower(cmp.Or(m.Name, a.Hostname))
		}
		out[at[m]] = r
		return nil
	})
}

// Images are the ClusterImages of the cluster of f: the one that made it, then
// its applications. dir is Options.State.
func Images(dir string, f *spec.File) ([]string, error) {
	out := []string{f.Cluster.Image}
	apps, err := Applications(dir, f.Cluster.Name)
	for _, a := range apps {
		out = append(out, a.Image)
	}
	return out, err
}

// settled makes proofs until one has neither waiting containers nor strangers,
// or patience is over. Strangers end the wait: they do not go away.
func settled(ctx context.Context, api proof.API, images []proof.Carried, runtimes []proof.Runtime, patience time.Duration) (*proof.Report, error) {
	end := time.Now().Add(patience)
	for {
		r, err := look(ctx, api, images, runtimes)
		if err != nil || len(r.Waiting) == 0 || len(r.Strangers) > 0 || !time.Now().Before(end) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(proofPoll):
		}
	}
}

func look(ctx context.Context, api proof.API, images []proof.Carried, runtimes []proof.Runtime) (*proof.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	return proof.Make(ctx, api, images, runtimes, time.Now())
}

// Carried reads the images inside the ClusterImage name of the store, for each
// platform that is there.
func Carried(ctx context.Context, s *store.Store, name string) ([]proof.Carried, error) {
	img, err := s.Image(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	var out []proof.Carried
	for _, p := range img.Platforms {
		if img, err = s.Image(ctx, name, &p); err != nil {
			return nil, err
		}
		c, err := proof.Read(ctx, name, img.ManifestDescriptor.Digest, &img.Config, s)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
