package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/clusterimage/sealer/cluster/extend"
)

// A Risk is the worst that a step does to its machine. The order of the
// constants is the order of their weight.
type Risk string

// The risks, with the sign that a printed plan has for each.
const (
	Reads    Risk = "reads"    // "  " nothing changes
	Adds     Risk = "adds"     // "+ " something new appears
	Changes  Risk = "changes"  // "~ " something that was there is replaced; delete puts it back
	Restarts Risk = "restarts" // "! " a service stops and starts, or may
	Removes  Risk = "removes"  // "- " something is taken away for good
)

// Sign is the mark of the risk in a printed plan, one character.
func (r Risk) Sign() string {
	switch r {
	case Adds:
		return "+"
	case Changes:
		return "~"
	case Restarts:
		return "!"
	case Removes:
		return "-"
	}
	return " "
}

// A Step is one change of one machine.
type Step struct {
	// ID is the digest of Kind, Host and Args: equal work has an equal ID, in
	// every run.
	ID string `json:"id"`
	// Kind names the work: "rootfs", "unit", "kubeadm.init". Package
	// cluster/node has the list.
	Kind string `json:"kind"`
	// Host is the address of the machine as the Clusterfile has it.
	Host string `json:"host"`
	// Args are the arguments of the kind, as compact JSON with sorted keys.
	Args json.RawMessage `json:"args,omitempty"`
	// Needs are the IDs of the steps that must have ended well before.
	Needs []string `json:"needs,omitempty"`
	// After are the IDs of steps that must have ended before, well or not.
	After []string `json:"after,omitempty"`
	// Phase is set for the work of plugins, and is no part of ID.
	Phase extend.Phase `json:"phase,omitempty"`
	Risk  Risk         `json:"risk"`
	// Bytes are sent to the machine, at most.
	Bytes int64 `json:"bytes,omitempty"`
	// Why is the difference that asks for the step, for people.
	Why string `json:"why"`
}

// NewStep makes a step and its ID. args is encoded as JSON. An error means that
// args cannot be encoded: a fault of the program, not of the user.
func NewStep(kind, host string, args any, risk Risk, why string) (Step, error) {
	raw, err := canonical(args)
	if err != nil {
		return Step{}, fmt.Errorf("step %s of %s: %w", kind, host, err)
	}
	s := Step{Kind: kind, Host: host, Args: raw, Risk: risk, Why: why}
	s.ID = s.digest()
	return s, nil
}

func (s Step) digest() string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(s.Kind), []byte(s.Host), s.Args} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// canonical encodes v compactly, with the keys of every object sorted.
func canonical(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}
