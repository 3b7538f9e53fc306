package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Digest is the digest of the facts that decide about a plan. Facts that change
// by themselves are left out: clocks, free space, open ports.
func Digest(nodes []Node) (string, error) {
	kept := slices.Clone(nodes)
	slices.SortFunc(kept, func(a, b Node) int { return strings.Compare(a.Host, b.Host) })
	h := sha256.New()
	for _, n := range kept {
		b, err := json.Marshal(struct {
			Host, Hostname, OS, Arch, Kernel, Machine, Init string
			UID, Cgroup                                     int
			Swap                                            bool
			Programs                                        []Program
			Leftovers                                       []string
			Files                                           map[string]File
			Missing, Clusters, Changes                      []string
		}{
			n.Host, n.Hostname, n.OS, n.Arch, n.Kernel, n.MachineID, n.InitSystem, n.UID, n.Cgroup, n.Swap > 0,
			n.Programs, n.Leftovers, n.Files, n.Missing, n.Clusters, n.Changes,
		})
		if err != nil {
			return "", fmt.Errorf("facts of %s: %w", n.Host, err)
		}
		fmt.Fprintf(h, "%d:%s", len(b), b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
