package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/spec"
)

// A History is what this machine remembers of the last run of a cluster.
type History struct {
	File   *spec.File
	Images []string
	// Plan is the plan of the last run, nil before the first.
	Plan *plan.Plan
	// Journals are the copies of the machines' journals, by address.
	Journals map[string]journal.Records
	// Proof is the last proof, nil where none was made.
	Proof *proof.Report
}

// Remembered reads the history of the cluster name. dir is Options.State. The error
// wraps fs.ErrNotExist when this machine has made no such cluster.
func Remembered(dir, name string) (*History, error) {
	f, err := Known(dir, name)
	if err != nil {
		return nil, err
	}
	h := &History{File: f, Journals: map[string]journal.Records{}}
	if h.Images, err = Images(dir, f); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	here := state{filepath.Join(dir, name)}
	if err := here.read(planFile, &h.Plan); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	if err := here.read(proofFile, &h.Proof); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	if h.Plan == nil {
		return h, nil
	}
	for _, host := range h.Plan.Hosts {
		if h.Journals[host], err = here.mirrored(host); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return h, nil
}

// read decodes a JSON file of the directory into v, which stays as it is where the
// file does not exist.
func (s state) read(name string, v any) error {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// mirrorOf is the copy of a machine's journal.
func (s state) mirrorOf(host string) string {
	return filepath.Join(s.dir, "journal", strings.ReplaceAll(host, ":", "_"))
}

// mirrored reads the copy of a machine's journal. A last line that a crash tore is
// left out.
func (s state) mirrored(host string) (journal.Records, error) {
	b, err := os.ReadFile(s.mirrorOf(host))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out journal.Records
	for text := range strings.Lines(string(b)) {
		if !strings.HasSuffix(text, "\n") {
			break
		}
		var r journal.Record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return nil, fmt.Errorf("journal of %s: %w", host, err)
		}
		out = append(out, r)
	}
	return out, nil
}
