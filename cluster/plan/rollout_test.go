package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/cluster/plan"
)

// before lists the hosts of the steps of a kind that a step waits for, directly
// or not.
func before(p *plan.Plan, s plan.Step, kind string) []string {
	var out []string
	for i := len(p.Steps) - 1; i >= 0; i-- {
		o := p.Steps[i]
		if !slices.Contains(slices.Concat(s.Needs, s.After), o.ID) {
			continue
		}
		s.Needs = append(s.Needs, slices.Concat(o.Needs, o.After)...)
		if o.Kind == kind && !slices.Contains(out, o.Host) {
			out = append(out, o.Host)
		}
	}
	slices.Sort(out)
	return out
}

func unitOf(t *testing.T, p *plan.Plan, host, unit string) plan.Step {
	t.Helper()
	for _, s := range p.Steps {
		if s.Host == host && s.Kind == "unit" && strings.Contains(string(s.Args), unit) {
			return s
		}
	}
	t.Fatalf("%s has no step for %s", host, unit)
	return plan.Step{}
}

func TestRollout(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "node 10.0.0.3", "node 10.0.0.4", "node 10.0.0.5", "node 10.0.0.6")
	for i := range seen[:4] { // the last one joins
		seen[i].Changes = []string{"kube kubeadm join"}
	}
	w.AtOnce, w.PauseSeconds = 2, 7
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"10.0.0.2": "", "10.0.0.3": "", "10.0.0.4": "", "10.0.0.5": "10.0.0.3 10.0.0.4", "10.0.0.6": "",
	} {
		containerd := unitOf(t, p, host, "containerd.service")
		got := slices.DeleteFunc(before(p, containerd, "unit"), func(h string) bool { return h == host || h == "10.0.0.2" })
		if strings.Join(got, " ") != want {
			t.Errorf("containerd of %s waits for %q, want %q", host, got, want)
		}
	}
	var waits []string
	for _, s := range p.Steps {
		if s.Kind == "image" && len(before(p, s, "unit")) > 0 {
			t.Errorf("the image of %s waits for others", s.Host)
		}
		if strings.Contains(string(s.Args), `"pause":7`) {
			waits = append(waits, s.Why)
		}
	}
	if len(waits) != 1 || waits[0] != "wait until n2, n3 are ready again" {
		t.Errorf("pauses %q", waits)
	}
	// Secret and start commands of the first master do not need the batches.
	last := p.Steps[len(p.Steps)-1]
	if last.Kind != "kube.secret" {
		t.Fatalf("the last step is %s", last.Kind)
	}

	w.AtOnce = 0
	if p, err = plan.Make(w, img(), seen); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.Why, "ready again") {
			t.Errorf("without a bound: %s", s.Why)
		}
	}
}

// A wait that is over already counts only while nothing before it changes.
func TestStale(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master+node 10.0.0.2")
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	all := func() map[string]bool {
		done := map[string]bool{}
		for _, s := range p.Steps {
			done[s.ID] = true
		}
		return done
	}
	done := all()
	p.Stale(done)
	if left := p.Without(done).Steps; len(left) > 0 {
		t.Errorf("nothing changes, and %d steps are left: %s", len(left), left[0].Why)
	}
	done = all()
	delete(done, unitOf(t, p, "10.0.0.2", "containerd.service").ID)
	p.Stale(done)
	var kinds []string
	for _, s := range p.Without(done).Steps {
		kinds = append(kinds, s.Kind)
	}
	if got := strings.Join(kinds, " "); got != "unit kube.wait kube.wait" {
		t.Errorf("after a change of the runtime: %s", got)
	}
}

func TestRuntime(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master+node 10.0.0.2")
	i := img()
	w.Runtime = "docker"
	if _, err := plan.Make(w, i, seen); err == nil || !strings.Contains(err.Error(), "image my-app:v1 has no scripts/docker.sh") {
		t.Errorf("error %v", err)
	}
	i.Files["scripts/docker.sh"], i.Files["scripts/containerd.sh"] = 0o755, 0o755
	for runtime, want := range map[string]string{"docker": "./docker.sh ", "containerd": "./containerd.sh ", "": "./containerd.sh "} {
		w.Runtime = runtime
		p, err := plan.Make(w, i, seen)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Kind == "script" && strings.Contains(string(s.Args), want) }) {
			t.Errorf("runtime %q: no step runs %s", runtime, want)
		}
	}
}
