package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	same, err := sameContent(w.sealer(), w.Program)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return same, err
}

// sameContent compares the bytes of two files. Every run asks every machine:
// hashing both files took most of a run that changes nothing.
func sameContent(a, b string) (same bool, err error) {
	var files [2]*os.File
	var infos [2]fs.FileInfo
	for i, name := range []string{a, b} {
		if files[i], err = os.Open(name); err != nil {
			return false, err
		}
		defer files[i].Close()
		if infos[i], err = files[i].Stat(); err != nil {
			return false, err
		}
	}
	if os.SameFile(infos[0], infos[1]) {
		return true, nil
	}
	if infos[0].Size() != infos[1].Size() {
		return false, nil
	}
	x, y := make([]byte, 256<<10), make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(files[0], x)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		if _, err := io.ReadFull(files[1], y[:n]); err != nil {
			return false, fmt.Errorf("read %s: %w", b, err)
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false, nil
		}
		if err != nil {
			return true, nil //nolint:nilerr // the end of the file
		}
	}
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
