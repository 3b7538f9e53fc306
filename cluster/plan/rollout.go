package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
)

// isMember says whether the machine is a worker of the cluster that runs: pods
// may run on it. One that joins in this plan has none yet.
func (m *maker) isMember(h Host) bool {
	return !h.Master() && slices.ContainsFunc(m.seen[h.Address.String()].Changes, func(line string) bool {
		return strings.HasPrefix(line, journal.Kube+" ")
	})
}

// rollout prepares the workers that are nodes already, in batches: their
// container runtime and kubelet may start anew. The image comes to all of them
// at once. A batch needs that the nodes of the batch before are ready; one that
// fails ends the rollout.
func (m *maker) rollout() {
	var members []Host
	for _, h := range m.want.Hosts {
		if m.isMember(h) {
			members = append(members, h)
		}
	}
	if len(members) == 0 {
		return
	}
	first, wait := m.first().Address.String(), cmp.Or(m.want.WaitSeconds, 600)
	for batch := range slices.Chunk(members, cmp.Or(m.want.AtOnce, len(members))) {
		var ended, names []string
		for _, h := range batch {
			m.prepare(h)
			ended = append(ended, m.last[h.Address.String()])
			names = append(names, h.Kube)
		}
		if names[len(names)-1] == members[len(members)-1].Kube {
			break // the wait for the whole cluster follows
		}
		// The step lies beside the first master's others: they do not need it.
		last := m.last[first]
		m.gate = []string{m.add(m.first(), "kube.wait", WaitArgs{Nodes: names, Ready: true, Seconds: wait, Pause: m.want.PauseSeconds}, Reads,
			"wait until "+strings.Join(names, ", ")+" are ready again", ended...)}
		m.last[first] = last
	}
	m.gate = nil
}

// Stale takes from done the waits that stand after a step that is not done: the
// nodes are ready before it, which says nothing of afterwards.
func (p *Plan) Stale(done map[string]bool) {
	pending := map[string]bool{}
	for _, s := range p.Steps {
		before := slices.ContainsFunc(slices.Concat(s.Needs, s.After), func(id string) bool { return pending[id] })
		if before && s.Kind == "kube.wait" {
			delete(done, s.ID)
		}
		pending[s.ID] = before || !done[s.ID]
	}
}
