package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/cluster/plan"
)

type programKind struct{}

// sealer is the path on the machine of the sealer that units start.
func (m *Machine) sealer() string { return filepath.Join(m.Dir(), "bin", "sealer") }

// Check compares with the program that runs this session, which is the one that
// the plan names.
func (programKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.ProgramArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	got, err := digestFile(w.sealer())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, err := digestFile(w.Program)
	return got == want, err
}

// Do writes no change into the inventory: the directory goes with the cluster.
func (programKind) Do(_ context.Context, w *Work, _ json.RawMessage) (err error) {
	if err := os.MkdirAll(filepath.Dir(w.sealer()), 0o755); err != nil {
		return err
	}
	in, err := os.Open(w.Program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	free := &Machine{Root: "/"}
	return free.replaceFile(w.sealer(), in, 0o755)
}
