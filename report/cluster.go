package report

import (
	"slices"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/proof"
)

// OfCluster describes the last run of the cluster name: its plan p, the journals of
// its machines by address, and its proof r. Each may be nil, and Absent says so.
func OfCluster(name string, images []string, p *plan.Plan, journals map[string]journal.Records, r *proof.Report) *Cluster {
	c := &Cluster{Name: name, Images: images}
	if p == nil {
		c.Absent = append(c.Absent, "no plan is kept: no run has begun")
	} else {
		c.Verb, c.Facts, c.Before = string(p.Verb), p.Facts, p.Done
		c.steps(p, journals)
	}
	if r == nil {
		c.Absent = append(c.Absent, "no proof is kept: make one with sealer check --proof")
	} else {
		c.Proof = ofProof(r)
	}
	return c
}

// steps adds the steps of the plan with their ends.
func (c *Cluster) steps(p *plan.Plan, journals map[string]journal.Records) {
	at := map[string]int{}
	for _, address := range p.Hosts {
		at[address] = len(c.Hosts)
		c.Hosts = append(c.Hosts, Host{Address: address})
	}
	for i, s := range p.Steps {
		step := Step{Number: i + 1, Host: s.Host, Kind: s.Kind, Risk: string(s.Risk), Why: s.Why, Size: s.Bytes, State: StepLeft}
		for _, r := range journals[s.Host] {
			if r.Step == s.ID {
				step.record(r)
			}
		}
		c.Steps = append(c.Steps, step)
		n, known := at[s.Host]
		if !known {
			n = len(c.Hosts)
			at[s.Host] = n
			c.Hosts = append(c.Hosts, Host{Address: s.Host})
		}
		c.Hosts[n].add(step)
	}
}

// record takes over what one record of the journal says.
func (s *Step) record(r journal.Record) {
	switch r.Event {
	case journal.Begin:
		s.State, s.Began, s.Took, s.Error = StepOpen, r.Time, 0, ""
	case journal.End:
		s.State, s.Took = StepDone, r.Time.Sub(s.Began)
	case journal.Failed:
		s.State, s.Took, s.Error = StepFailed, r.Time.Sub(s.Began), r.Error
	case journal.Undone:
		s.State = StepLeft
	}
}

func (h *Host) add(s Step) {
	switch s.State {
	case StepDone:
		h.Done++
	case StepFailed, StepOpen:
		h.Failed++
	default:
		h.Left++
	}
	if s.Began.IsZero() {
		return
	}
	if h.Began.IsZero() || s.Began.Before(h.Began) {
		h.Began = s.Began
	}
	if end := s.Began.Add(s.Took); end.After(h.Ended) {
		h.Ended = end
	}
}

func ofProof(r *proof.Report) *Proof {
	out := &Proof{
		Time: r.Time, Proven: r.Proven(), Pods: r.Pods, Nodes: r.Nodes, NodeImages: len(r.NodeImages), Workloads: len(r.Workloads),
		Containers: containers(r.Containers), Waiting: containers(r.Waiting), Unseen: slices.Clone(r.Unseen),
	}
	for _, s := range r.Strangers {
		c := containers([]proof.Container{s.Container})[0]
		c.Why = s.Why
		out.Strangers = append(out.Strangers, c)
	}
	return out
}

func containers(list []proof.Container) []Container {
	var out []Container
	for _, c := range list {
		ref := c.Reference
		if ref == "" {
			ref = c.ImageID
		}
		out = append(out, Container{
			Where: c.Where, Node: c.Node, Name: c.Name, Reference: ref, Digest: c.Digest,
			ClusterImage: c.ClusterImage, Mirrored: c.Mirrored, Found: c.Found,
		})
	}
	return out
}
