package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/spec"
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
// directory. While containers have not started yet, Prove looks again until
// patience is over; they are in the report's Waiting then, which is no error. An
// error means that the cluster could not be looked at: then the proof of an
// earlier run is kept.
func Prove(ctx context.Context, o Options, f *spec.File, patience time.Duration) (*proof.Report, error) {
	s := state{filepath.Join(o.State, f.Cluster.Name)}
	config, err := kube.ReadConfig(filepath.Join(s.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	client, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", f.Cluster.Name, err)
	}
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
	r, err := settled(ctx, client, images, patience)
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
func settled(ctx context.Context, api proof.API, images []proof.Carried, patience time.Duration) (*proof.Report, error) {
	end := time.Now().Add(patience)
	for {
		r, err := look(ctx, api, images)
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

func look(ctx context.Context, api proof.API, images []proof.Carried) (*proof.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	return proof.Make(ctx, api, images, time.Now())
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
