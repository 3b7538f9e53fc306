package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// state is the directory of one cluster on the engine's machine.
type state struct{ dir string }

// lock keeps two runs of this machine from working on one cluster.
func (s state) lock(h journal.Holder) (func() error, error) {
	l, err := journal.Acquire(s.dir, h)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// write makes a file of the directory appear whole, for its owner alone.
func (s state) write(name string, content []byte) error {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

// keep writes the Clusterfile f without its secrets, so that later commands
// know the wanted cluster.
func (s state) keep(f *spec.File) error {
	b, err := spec.Print(f)
	if err != nil {
		return err
	}
	return s.write("Clusterfile", b)
}

// planFile is the name of the plan of the last run in the cluster's directory.
const planFile = "plan.json"

func (s state) keepPlan(p *plan.Plan) error {
	var b bytes.Buffer
	if err := p.Encode(&b); err != nil {
		return err
	}
	return s.write(planFile, b.Bytes())
}

// owed are the plugins of joining, by the IDs of their steps, that the plan of the
// last run has. Their machines may have joined before it died: nothing else tells
// that the plugins are wanted. A plan that cannot be read owes none.
func (s state) owed() map[string]bool {
	b, err := os.ReadFile(filepath.Join(s.dir, planFile))
	if err != nil {
		return nil
	}
	var p plan.Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil
	}
	out := map[string]bool{}
	for _, step := range p.Steps {
		if plan.Joining(step.Phase) {
			out[step.ID] = true
		}
	}
	return out
}

// Known returns the Clusterfile of a cluster that the engine has made. The error
// wraps fs.ErrNotExist when it knows no such cluster.
func Known(dir, name string) (*spec.File, error) {
	path := filepath.Join(dir, name, "Clusterfile")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return spec.Parse(path, b)
}

// Clusters are the names of the clusters that the engine knows, sorted.
func Clusters(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "Clusterfile")); err == nil {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// mirror adds records of a machine's journal to the copy.
func (s state) mirror(host string, records journal.Records) error {
	if len(records) == 0 {
		return nil
	}
	path := s.mirrorOf(host)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	e := json.NewEncoder(f)
	for _, r := range records {
		err = errors.Join(err, e.Encode(r))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// forget removes all that is remembered.
func (s state) forget() error { return os.RemoveAll(s.dir) }
