package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/wire"
)

// adopt fetches from the masters the state that another operator's machine made:
// the registries' certificate authority and the list of applications. Without it
// a second operator would make a new authority, which no machine trusts. Nothing
// is fetched for a new cluster, or where this machine has an authority already.
func (e *engine) adopt(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(e.state.dir, "pki", "ca.key"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, m := range e.machines {
		if !m.Master() {
			continue
		}
		var k node.Kept
		if err := m.conn.Call(ctx, node.OpKept, node.KeptRequest{Cluster: e.file.Cluster.Name}, &k, wire.Streams{}); err != nil {
			return fmt.Errorf("%s: %w", m.name(), err)
		}
		if len(k.Key) == 0 || len(k.CA) == 0 {
			continue
		}
		e.event(Event{Type: "log", Host: m.name(), Text: "this machine takes over the registry's authority and the list of applications"})
		if len(k.Applications) > 0 {
			if err := e.state.write(applicationsFile, k.Applications); err != nil {
				return err
			}
		}
		if err := e.state.write("pki/ca.crt", k.CA); err != nil {
			return err
		}
		// The key is last: where it is, nothing is fetched again, also after a kill.
		err := e.state.write("pki/ca.key", k.Key)
		return err
	}
	return nil
}
