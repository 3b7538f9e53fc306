package node

import (
	"errors"
	"os"
	"path/filepath"
)

// A KeptRequest asks a master for what it keeps for other operators.
type KeptRequest struct {
	Cluster string `json:"cluster"`
}

// Kept are the authority of the cluster's registries, PEM, and the list of its
// applications, JSON: secrets. A field is empty when the machine does not have it.
type Kept struct {
	CA           []byte `json:"ca,omitempty"`
	Key          []byte `json:"key,omitempty"`
	Applications []byte `json:"applications,omitempty"`
}

// Kept returns what the machine keeps of a cluster.
func (s *Server) Kept(q KeptRequest) (Kept, error) {
	var k Kept
	var errs []error
	for name, to := range map[string]*[]byte{"pki/ca.crt": &k.CA, "pki/ca.key": &k.Key, "applications.json": &k.Applications} {
		b, err := os.ReadFile(filepath.Join(s.dataDir(q.Cluster), name))
		*to = b
		errs = append(errs, ignoreAbsent(err))
	}
	return k, errors.Join(errs...)
}
