package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/clusterimage/sealer/cluster/journal"
)

// StartUnits starts the services of every cluster on a machine without systemd,
// in the order in which they were made, and calls say with each: what systemd
// does at boot elsewhere. root is the directory that is the machine's root.
// Services that run are left alone. One that does not start keeps no other.
func StartUnits(ctx context.Context, root string, say func(unit string)) error {
	if root == "/" && HasSystemd() {
		return nil // it has started them
	}
	data := filepath.Join(root, DefaultBase, "data")
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		dir := filepath.Join(data, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "journal")); err != nil {
			continue // a store's directory
		}
		records, err := journal.Read(dir)
		errs = append(errs, err)
		m := &Machine{Root: root, Journal: journal.Closed(dir, records)}
		s := Supervisor{Dir: filepath.Join(dir, "units"), Root: root, Program: m.sealer()}
		for _, r := range slices.Backward(records.Inventory()) {
			if r.Change.What != journal.Unit {
				continue
			}
			if err := s.Start(ctx, r.Change.Name, false); err != nil {
				errs = append(errs, fmt.Errorf("cluster %s: %w", e.Name(), err))
				continue
			}
			say(r.Change.Name)
		}
	}
	return errors.Join(errs...)
}
