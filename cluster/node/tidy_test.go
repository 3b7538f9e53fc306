//go:build linux

package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/node"
)

// copied is a machine to which sealer was copied, with the guest that tells how.
func copied(t *testing.T) (root string, g node.Guest, program string) {
	t.Helper()
	root = t.TempDir()
	g = node.Guest{Dir: filepath.Join(root, "var/lib/sealer/bin"), Made: filepath.Join(root, "var")}
	program = filepath.Join(g.Dir, "sealer-0123456789abcdef")
	if err := errors.Join(os.MkdirAll(g.Dir, 0o755), os.WriteFile(program, []byte("sealer"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return root, g, program
}

func guard(root, program string, g node.Guest) (*node.Server, func() error) {
	s := node.NewServer(node.ServerOptions{Root: root, Program: program})
	return s, s.Guard(g)
}

func TestGuardLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"looked at": false, "a run that was refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, g, program := copied(t)
			s, leave := guard(root, program, g)
			if _, err := s.Look(t.Context(), node.LookRequest{Cluster: "c1"}); err != nil {
				t.Fatal(err)
			}
			if open {
				if _, err := s.Open(t.Context(), "c1", journal.Holder{Name: "me"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := leave(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{}, tree(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGuardKeepsWhatOthersNeed(t *testing.T) {
	t.Parallel()
	root, g, program := copied(t)
	g.Made = "" // the directories were there
	there := func(want bool) {
		t.Helper()
		if _, err := os.Stat(program); (err == nil) != want {
			t.Errorf("the program: %v", err)
		}
	}
	_, first := guard(root, program, g)
	s, second := guard(root, program, g)
	if err := first(); err != nil {
		t.Fatal(err)
	}
	there(true) // the second session runs it
	if _, err := s.Open(t.Context(), "c1", journal.Holder{Name: "me"}); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(filepath.Join(root, "var/lib/sealer/data/c2"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(journal.Record{Event: journal.Begin, Step: "s", Kind: "files"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := second(); err != nil {
		t.Fatal(err)
	}
	there(true) // a cluster has changed the machine
	if err := os.RemoveAll(filepath.Join(root, "var/lib/sealer/data/c2")); err != nil {
		t.Fatal(err)
	}
	_, third := guard(root, program, g)
	if err := third(); err != nil {
		t.Fatal(err)
	}
	there(false)
	if _, err := os.Stat(g.Dir); err != nil {
		t.Error("a directory that was there is gone")
	}
}
