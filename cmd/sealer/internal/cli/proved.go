package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/spec"
)

// proofPatience is how long a run waits for containers that have not started
// yet: their pods were made a moment ago.
const proofPatience = 10 * time.Second

// proved makes the proof at the end of a run whose report is r, and prints it.
func (a *app) proved(ctx context.Context, o cluster.Options, f *spec.File, r *cluster.Report) error {
	patience := proofPatience
	if r.Ran == 0 {
		patience = 0
	}
	images, err := cluster.Images(o.State, f)
	if err != nil {
		return err
	}
	names := strings.Join(images, ", ")
	p, err := cluster.Prove(ctx, o, f, r.Runtimes, patience)
	if err != nil {
		err = fmt.Errorf("proof: the cluster runs, but could not be compared with image %s: %w", names, err)
		return incompleteError{advise(err, "Make the proof where the API server answers: sealer check --proof --image "+strings.Join(images, " --image ")+"; --no-proof leaves it out")}
	}
	printf(a.Out, "proof: %s of %s come from %s\n", counted(len(p.Containers), "container", "containers"), counted(p.Pods, "pod", "pods"), names)
	printOpen(a.Out, p)
	return notProved(p, names, filepath.Join(o.State, f.Cluster.Name, "proof.json"))
}

// notProved is the error of a proof that has strangers, or that did not see
// everything. names are the ClusterImages; file has the whole proof.
func notProved(p *proof.Report, names, file string) error {
	var errs []error
	if n := len(p.Strangers); n > 0 {
		errs = append(errs, incompleteError{fmt.Errorf("proof: the cluster runs, but %s not from %s", counted(n, "reference or container is", "references or containers are"), names)})
	}
	if n := len(p.Unseen); n > 0 {
		errs = append(errs, incompleteError{fmt.Errorf("proof: the cluster runs, but %s not looked at whole", counted(n, "node was", "nodes were"))})
	}
	if n := len(p.Unserved); n > 0 {
		errs = append(errs, incompleteError{fmt.Errorf("proof: the cluster runs, but %s not served by its registries", counted(n, "image is", "images are"))})
	}
	return advise(errors.Join(errs...), "Remove the strangers, or build them into the image; of several ClusterImages: sealer check --proof --image A --image B. The proof is "+file)
}
