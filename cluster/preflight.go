package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/facts"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/preflight"
	"github.com/clusterimage/sealer/cluster/spec"
)

// Preflight judges the machines of f and changes none; for a while ports are
// open on them, and a small file is written where etcd will lie. Where f names no
// image, its architecture and size are not looked at.
func Preflight(ctx context.Context, o Options, f *spec.File) (_ preflight.Report, err error) {
	e, err := newEngine(o, f)
	if err != nil {
		return preflight.Report{}, err
	}
	e.measure = true
	img := &source{}
	if f.Cluster.Image != "" {
		if img, err = readImage(ctx, o.Store, f.Cluster.Image); err != nil {
			return preflight.Report{}, err
		}
		defer func() { err = errors.Join(err, img.Close()) }()
	}
	if img.stored != nil {
		e.program = img.program
	}
	defer e.disconnect()
	if err := e.connect(ctx); err != nil {
		return preflight.Report{}, err
	}
	seen, err := e.look(ctx, img)
	if err != nil {
		return preflight.Report{}, err
	}
	if err := e.roles(seen); err != nil {
		return preflight.Report{}, err
	}
	if img.stored != nil {
		if e.work, err = e.plugins(img); err != nil {
			return preflight.Report{}, err
		}
	}
	return e.judge(ctx, img, seen)
}

// preflight judges the machines before anything is changed. Warnings become
// events; failures are the error.
func (e *engine) preflight(ctx context.Context, img *source, seen []plan.Node) error {
	report, err := e.judge(ctx, img, seen)
	if err != nil {
		return err
	}
	if e.Add != nil { // the machines are nodes: only the room for more is asked about
		report.Results = slices.DeleteFunc(report.Results, func(r preflight.Result) bool { return r.Check != "disk" && r.Check != "inodes" })
	}
	for _, r := range report.Results {
		if r.Level == preflight.Warn {
			e.event(Event{Type: "log", Host: strings.Join(r.Hosts, ","), Text: "warning: " + r.Check + ": " + r.Message + ": " + r.Remedy})
		}
	}
	err = report.Err()
	if err == nil {
		return nil
	}
	for _, r := range report.Results {
		if r.Check == preflight.ImagesCheck && r.Level == preflight.Fail {
			return fmt.Errorf("%w: %w\n%w", ErrPreflight, ErrImages, err)
		}
	}
	return fmt.Errorf("%w\n%w", ErrPreflight, err)
}

// skips says whether a check is left out.
func skips(f *spec.File, check string) bool {
	return f.Preflight != nil && slices.ContainsFunc(f.Preflight.Skip, func(s spec.Skip) bool { return s.Check == check })
}

// judge runs the checks of package preflight over the nodes seen. An img
// without a stored image stands for an image that is not known.
func (e *engine) judge(ctx context.Context, img *source, seen []plan.Node) (_ preflight.Report, err error) {
	in := preflight.Input{File: withSkips(e.file, e.SkipChecks)}
	if img.stored != nil {
		docs, err := img.documents()
		if err != nil {
			return preflight.Report{}, err
		}
		for _, w := range e.work { // of PREFLIGHT plugins; the Clusterfile's own rules win
			if w.Preflight != nil {
				in.File = spec.Merge(in.File, &spec.File{Preflight: w.Preflight})
			}
		}
		in.File.Kubeadm = append(slices.Clone(in.File.Kubeadm), docs...)
		in.Archs, in.Kubernetes, in.References = []string{img.Arch}, img.Kubernetes, img.References
		if !skips(in.File, preflight.ImagesCheck) && seen[0].Arch == img.Arch { // else the check arch tells
			if in.Images, err = e.lacking(ctx, img, seen); err != nil {
				return preflight.Report{}, err
			}
		}
	}
	ha := true
	if l := e.file.Cluster.Registry.Local; l != nil && l.HA != nil {
		ha = *l.HA
	}
	for i, m := range e.machines {
		n := preflight.Node{
			Facts: seen[i].Facts, Address: m.name(), Name: m.Name, Master: m.Master(), Registry: m.Master() && (ha || i == 0),
			Ours: slices.Contains(seen[i].Clusters, e.file.Cluster.Name),
		}
		if img.stored != nil {
			n.Needs = []preflight.Space{{Path: plan.Base, Bytes: e.room(img, seen[i], n.Registry)}}
		}
		in.Nodes = append(in.Nodes, n)
	}
	if len(e.machines) > 1 {
		if in.Links, err = e.matrix(ctx, in); err != nil {
			return preflight.Report{}, err
		}
	}
	return preflight.Run(in)
}

// room returns the bytes that the image takes on a machine: the blobs that the
// machine lacks, and as much again for the files unpacked of them.
func (e *engine) room(img *source, n plan.Node, registry bool) int64 {
	blobs := img.Layers
	if registry {
		blobs = e.served(img)
	}
	var bytes int64
	for _, b := range blobs {
		if slices.Contains(n.Missing, b.Digest) {
			bytes += b.Size
		}
	}
	return 2 * bytes
}

// matrix lets the machines connect to each other.
func (e *engine) matrix(ctx context.Context, in preflight.Input) ([]plan.Link, error) {
	var peers []facts.Peer
	for i, m := range e.machines {
		ports, from := in.Reached(in.Nodes[i])
		peers = append(peers, facts.Peer{Name: m.name(), Address: m.name(), Conn: m.conn, Ports: ports, From: from})
	}
	return facts.Matrix(ctx, peers)
}

// withSkips is the Clusterfile with further checks left out.
func withSkips(f *spec.File, names []string) *spec.File {
	out := *f
	if len(names) == 0 {
		return &out
	}
	p := spec.Preflight{}
	if f.Preflight != nil {
		p = *f.Preflight
	}
	p.Skip = slices.Clone(p.Skip)
	for _, n := range names {
		p.Skip = append(p.Skip, spec.Skip{Check: n, Reason: "--skip-check"})
	}
	out.Preflight = &p
	return &out
}
