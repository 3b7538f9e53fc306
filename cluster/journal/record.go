package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// An Event is the type of a record.
type Event string

// The events.
const (
	Begin   Event = "begin"   // a step starts
	Changed Event = "changed" // a step is about to make Change
	End     Event = "end"     // a step is done and was checked
	Failed  Event = "failed"  // a step ended with Error
	Undone  Event = "undone"  // Change was put back
)

// A Record is one line of a journal. It carries no secret.
type Record struct {
	Seq        int             `json:"seq"` // counts from 1, no gaps
	Time       time.Time       `json:"time"`
	Event      Event           `json:"event"`
	Step       string          `json:"step,omitempty"` // its ID
	Kind       string          `json:"kind,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`       // of Begin
	Generation string          `json:"generation,omitempty"` // of the rootfs that the step ran for
	Change     *Change         `json:"change,omitempty"`     // of Changed and Undone
	Error      string          `json:"error,omitempty"`      // of Failed
}

// The kinds of things that a Change is about.
const (
	File   = "file"   // a regular file; Name is its path
	Link   = "link"   // a symbolic link
	Dir    = "dir"    // a directory that did not exist; removed when it is empty
	Tree   = "tree"   // a directory that did not exist; removed with all in it
	Block  = "block"  // marked lines of a file; Name is path#mark
	Unit   = "unit"   // a service of the machine: Was says active and enabled
	Sysctl = "sysctl" // a kernel parameter: Was.Value
	Module = "module" // a kernel module that was not loaded
	Host   = "host"   // the machine's host name: Was.Value
	Image  = "image"  // a name in the machine's image store
	Kube   = "kube"   // kubeadm made a node of the machine
)

// A Change is one thing of a machine that a step changes.
type Change struct {
	What string `json:"what"`
	Name string `json:"name"`
	// Was is the state before; nil when the thing did not exist.
	Was *State `json:"was,omitempty"`
	// Now is the digest of a file's new content, the target of a link, the
	// value of a parameter: an undo takes nothing away that somebody else has
	// changed since without saying so.
	Now string `json:"now,omitempty"`
}

// A State describes a thing before its change, so that it can be put back.
type State struct {
	Digest string `json:"digest,omitempty"` // of a file's content, kept in saved/
	Mode   uint32 `json:"mode,omitempty"`   // permission bits
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
	Link   string `json:"link,omitempty"`  // target of a symbolic link
	Value  string `json:"value,omitempty"` // of a parameter, a unit, a host name
}

// Records are the records of one journal, oldest first.
type Records []Record

// Done reports whether the step ended well, and nothing of it was undone since.
func (rs Records) Done(step string) bool {
	done := false
	for _, r := range rs {
		if r.Step != step {
			continue
		}
		switch r.Event {
		case End:
			done = true
		case Begin, Failed, Undone:
			done = false
		}
	}
	return done
}

// Open are the steps that began and neither ended nor failed: a process died
// while it worked on them.
func (rs Records) Open() []Record {
	var open []Record
	for _, r := range rs {
		switch r.Event {
		case Begin, End, Failed:
			// A step that a dead process left begins anew.
			open = slices.DeleteFunc(open, func(o Record) bool { return o.Step == r.Step })
		}
		if r.Event == Begin {
			open = append(open, r)
		}
	}
	return open
}

// Inventory are the changes to undo, the latest first. Of several changes of one
// thing the first one's Was counts, for that is how the machine was.
func (rs Records) Inventory() []Record {
	type key struct{ what, name string }
	at := map[key]int{}
	var kept []*Record
	for _, r := range rs {
		if r.Change == nil {
			continue
		}
		k := key{r.Change.What, r.Change.Name}
		i, there := at[k]
		switch r.Event {
		case Changed:
			if there {
				merged := *kept[i].Change
				merged.Now = r.Change.Now
				kept[i].Change = &merged
				continue
			}
			at[k] = len(kept)
			kept = append(kept, &r)
		case Undone:
			if there {
				kept[i] = nil
				delete(at, k)
			}
		}
	}
	var out []Record
	for i := len(kept) - 1; i >= 0; i-- {
		if kept[i] != nil {
			out = append(out, *kept[i])
		}
	}
	return out
}
