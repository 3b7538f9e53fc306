package node

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/journal"
)

// A program of a step that a dead session left open ends with the next session,
// with its children; programs of finished steps, such as a daemon that a script
// started, and of other machines stay.
func TestOpenEndsOrphans(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := NewServer(ServerOptions{Root: root})
	if _, err := s.Open(t.Context(), "c", journal.Holder{}); err != nil {
		t.Fatal(err)
	}
	m, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []journal.Record{
		{Event: journal.Begin, Step: "ended"}, {Event: journal.Begin, Step: "ended"}, {Event: journal.End, Step: "ended"},
		{Event: journal.Begin, Step: "open"},
	} {
		if err := m.Journal.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	other := &Machine{Root: t.TempDir(), Cluster: "c"}
	daemon, dead, foreign := marked(t, m.mark("ended")), marked(t, m.mark("open")), marked(t, other.mark("open"))
	if err := s.Close(); err != nil { // as a process that died: nothing was written
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "c", journal.Holder{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	select {
	case <-dead:
	case <-time.After(time.Minute):
		t.Error("the orphan lives")
	}
	for name, ended := range map[string]chan struct{}{"daemon": daemon, "foreign": foreign} {
		select {
		case <-ended:
			t.Errorf("%s was ended", name)
		default:
		}
	}
}

// marked starts a shell with a child of its own; the channel closes when both
// have ended.
func marked(t *testing.T, mark string) chan struct{} {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 1000 & echo ready; wait")
	cmd.Env = append(cmd.Environ(), mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatal(line, err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = r.ReadString(0) // until nobody has the pipe any more
		_ = cmd.Wait()
		close(ended)
	}()
	return ended
}
