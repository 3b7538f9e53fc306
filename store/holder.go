package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// A holder is a process that has locked a part of the store.
type holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command,omitempty"`
	Host    string    `json:"host,omitempty"`
	Began   time.Time `json:"began,omitzero"`
}

// self returns this process as a holder. The host tells processes apart where
// several machines share a store.
func (s *Store) self() holder {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return holder{PID: os.Getpid(), Command: s.o.Command, Host: host, Began: time.Now()}
}

// String returns the holder for people, as in "process 12 on node1 (sealer build, since 08:15:02)".
func (h holder) String() string {
	out := fmt.Sprintf("process %d", h.PID)
	if h.Host != "" {
		out += " on " + h.Host
	}
	var more []string
	if h.Command != "" {
		more = append(more, h.Command)
	}
	if !h.Began.IsZero() {
		more = append(more, "since "+h.Began.Local().Format(time.DateTime))
	}
	if len(more) > 0 {
		out += " (" + strings.Join(more, ", ") + ")"
	}
	return out
}

// holders names the processes that write to the store, or that have locked it
// against writers.
func (s *Store) holders() string {
	var out []string
	for _, name := range s.records() {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if dead, err := tryFlock(f, true); err == nil && !dead {
			if r, err := readRecord(f); err == nil && r.PID != os.Getpid() {
				out = append(out, r.holder.String())
			}
		}
		_ = f.Close()
	}
	for _, name := range []string{"store", "recover"} {
		if h, locked := s.exclusive(name); locked && h.PID != os.Getpid() {
			out = append(out, h.String())
		}
	}
	if len(out) == 0 {
		return "another process"
	}
	return strings.Join(out, ", ")
}

// exclusive returns the process that has locked ROOT/locks/name for itself alone.
func (s *Store) exclusive(name string) (h holder, locked bool) {
	f, err := os.Open(s.path("locks", name))
	if err != nil {
		return h, false
	}
	defer f.Close()
	if free, err := tryFlock(f, false); err != nil || free {
		return h, false
	}
	return h, json.NewDecoder(f).Decode(&h) == nil
}

// sign writes into a lock file that this process has locked it. The content counts
// only while the lock is held. Nothing is truncated: ext4 flushes a truncated file.
func (s *Store) sign(lock *os.File) {
	b, err := json.Marshal(s.self())
	if err != nil {
		return
	}
	_, _ = lock.WriteAt(append(b, '\n'), 0) // who waits is told less
}

// silence is how long a wait for a lock may last before it is told.
const silence = 2 * time.Second

// waitLock locks f as waitFlock does. A wait that lasts is told, with the process
// that is waited for.
func (s *Store) waitLock(ctx context.Context, f *os.File, exclusive bool) error {
	t := time.AfterFunc(silence, func() {
		s.o.Logger.Warn("waiting for the store", "store", s.root, "holder", s.holders())
	})
	defer t.Stop()
	return waitFlock(ctx, f, exclusive)
}
