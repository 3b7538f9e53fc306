package store

import (
	"testing"
	"time"
)

func TestHolderString(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 8, 15, 2, 0, time.Local)
	for want, h := range map[string]holder{
		"process 12": {PID: 12},
		"process 12 on node1 (sealer build, since 2026-01-02 08:15:02)": {PID: 12, Host: "node1", Command: "sealer build", Began: at},
		"process 12 (sealer build)":                                     {PID: 12, Command: "sealer build"},
		"process 12 on node1 (since 2026-01-02 08:15:02)":               {PID: 12, Host: "node1", Began: at},
	} {
		if got := h.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestHolders names the process that has locked a store for itself alone.
func TestHolders(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Command: "sealer prune"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.holders(); got != "another process" {
		t.Errorf("nobody holds it, and it is %s", got)
	}
	if h := s.self(); h.Host == "" || h.Command != "sealer prune" || h.PID == 0 || time.Since(h.Began) > time.Minute {
		t.Errorf("self: %+v", h)
	}
	if h, locked := s.exclusive("none"); locked {
		t.Errorf("a lock that is not there is held by %+v", h)
	}
}
