package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Verb is the purpose of a plan.
type Verb string

// The verbs. Each has one plan of its own: deleting never compares versions,
// joining never touches the nodes that are there.
const (
	Create Verb = "create"
	Join   Verb = "join"
	Leave  Verb = "leave"
	Delete Verb = "delete"
	Renew  Verb = "renew"  // certificates
	Deploy Verb = "deploy" // an application, on a cluster that sealer has not made
)

// A Plan is all that will be done, before anything is.
type Plan struct {
	APIVersion string `json:"apiVersion"` // Version
	Verb       Verb   `json:"verb"`
	Cluster    string `json:"cluster"`
	Image      string `json:"image,omitempty"`
	Digest     string `json:"digest,omitempty"` // of the image's manifest
	// Applications are the names of the ClusterImages that were brought to the
	// cluster later.
	Applications []string `json:"applications,omitempty"`
	// Facts is the digest of the facts that the plan was made of.
	Facts string `json:"facts"`
	// Hosts are the machines, in the order of the Clusterfile.
	Hosts []string `json:"hosts"`
	Steps []Step   `json:"steps"` // each after all that it needs
	// Done is the number of steps that were found done already and are not in
	// Steps.
	Done int `json:"done,omitempty"`
}

// Version is the apiVersion of a plan in a file.
const Version = "sealer.io/plan/v1"

// ErrChanged is wrapped by an error about a saved plan that does not fit the
// machines any more.
var ErrChanged = errors.New("the machines changed since the plan was made")

// Bytes returns how many bytes the steps send to machines.
func (p *Plan) Bytes() int64 {
	var n int64
	for _, s := range p.Steps {
		n += s.Bytes
	}
	return n
}

// Without returns the plan without the steps that are done. A step that needs one
// of them needs instead the steps that this one needed: on a machine whose image
// is to come while its next step is done already, the step after that still waits
// for the image.
func (p *Plan) Without(done map[string]bool) *Plan {
	out := *p
	out.Steps = nil
	left := map[string]Step{} // the done steps with the needs that stay
	for _, s := range p.Steps {
		var needs, after []string
		for _, id := range s.Needs {
			if !done[id] {
				needs = append(needs, id)
				continue
			}
			needs = append(needs, left[id].Needs...)
			after = append(after, left[id].After...)
		}
		for _, id := range s.After {
			if !done[id] {
				after = append(after, id)
				continue
			}
			after = append(append(after, left[id].Needs...), left[id].After...)
		}
		s.Needs, s.After = distinct(needs), distinct(after)
		if done[s.ID] {
			out.Done++
			left[s.ID] = s
			continue
		}
		out.Steps = append(out.Steps, s)
	}
	return &out
}

// distinct keeps the first of equal words.
func distinct(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Check reports every fault of the graph: a step whose ID is not its digest, two
// steps of one ID, a need that stands after the step or nowhere.
func (p *Plan) Check() error {
	var errs []error
	seen := map[string]bool{}
	for _, s := range p.Steps {
		name := s.Kind + " of " + s.Host
		if s.ID != s.digest() {
			errs = append(errs, fmt.Errorf("step %s: its id is not the digest of its content", name))
		}
		if seen[s.ID] {
			errs = append(errs, fmt.Errorf("step %s: it stands twice", name))
		}
		for _, n := range append(slices.Clone(s.Needs), s.After...) {
			if !seen[n] {
				errs = append(errs, fmt.Errorf("step %s: it needs %s, which does not stand before it", name, n))
			}
		}
		seen[s.ID] = true
	}
	return errors.Join(errs...)
}

// Encode writes the plan as JSON.
func (p *Plan) Encode(w io.Writer) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Load reads a plan that Encode wrote. facts is the digest of the machines'
// facts now (see Digest); the error wraps ErrChanged when the plan was made of
// others.
func Load(r io.Reader, facts string) (*Plan, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var p Plan
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if p.APIVersion != Version {
		return nil, fmt.Errorf("plan: apiVersion %q: want %s", p.APIVersion, Version)
	}
	for i, s := range p.Steps { // indented in the file
		raw, err := canonical(s.Args)
		if err != nil {
			return nil, fmt.Errorf("plan: step %s: %w", s.ID, err)
		}
		p.Steps[i].Args = raw
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if p.Facts != facts {
		return nil, fmt.Errorf("plan: %w", ErrChanged)
	}
	return &p, nil
}

// Print writes the plan for people: a line for each step, by host in the order
// of the hosts, and the sum.
func (p *Plan) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", p.Verb, p.Cluster)
	if p.Image != "" {
		fmt.Fprintf(&b, " from %s", p.Image)
	}
	if len(p.Applications) > 0 {
		fmt.Fprintf(&b, " with %s", strings.Join(p.Applications, ", "))
	}
	b.WriteByte('\n')
	count := map[Risk]int{}
	for _, h := range p.Hosts {
		first := true
		for _, s := range p.Steps {
			if s.Host != h {
				continue
			}
			if first {
				fmt.Fprintf(&b, "%s\n", h)
				first = false
			}
			count[s.Risk]++
			fmt.Fprintf(&b, "  %s %-16s %s\n", s.Risk.Sign(), s.Kind, s.Why)
		}
	}
	fmt.Fprintf(&b, "%d steps: %d add, %d change, %d restart, %d remove; %d bytes at most to send", len(p.Steps), count[Adds], count[Changes], count[Restarts], count[Removes], p.Bytes())
	if p.Done > 0 {
		fmt.Fprintf(&b, "; %d already so", p.Done)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}
