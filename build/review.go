package build

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/clusterimage/sealer/build/kyverno"
)

// review returns warnings about files of the rootfs that are known not to work
// in a cluster: redirect policies and scripts that wait for them.
func review(root fs.FS) (warnings []string, err error) {
	err = fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json", ".sh"}, path.Ext(name)) {
			return err
		}
		b, err := readUpTo(root, name, kyverno.MaxManifest)
		if err != nil {
			return err
		}
		for _, w := range kyverno.Review(name, b) {
			warnings = append(warnings, w.String())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("review the rootfs: %w", err)
	}
	return warnings, nil
}

// readUpTo returns the first limit bytes of a file.
func readUpTo(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
