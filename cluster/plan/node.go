package plan

// A Node is one machine as the engine saw it: its facts, and the traces of the
// cluster on it.
type Node struct {
	Facts
	// Local says that it is the machine on which the engine runs.
	Local bool `json:"local,omitempty"`
	// Store is the directory of the machine's image store.
	Store string `json:"store"`
	// Missing are the digests that the engine asked about and the machine's store
	// lacks.
	Missing []string `json:"missing,omitempty"`
	// Clusters are the names of the clusters whose journal lies on the machine.
	Clusters []string `json:"clusters,omitempty"`
	// Files are the files that the engine asked about, by path; one that does
	// not exist has no entry.
	Files map[string]File `json:"files,omitempty"`
	// Role is the part that the machine has in the cluster already, as its journal
	// tells: RoleFirst, RoleMaster, RoleWorker; "" when it is no node of it.
	Role string `json:"role,omitempty"`
	// Changes lists, a line each, the changes on the machine that the journal of
	// this cluster has to undo, the latest first.
	Changes []string `json:"changes,omitempty"`
}

// The parts of a machine in a cluster that runs. The first master is the one on
// which kubeadm made the cluster.
const (
	RoleFirst  = "first master"
	RoleMaster = "master"
	RoleWorker = "worker"
)

// A File describes a file without its content.
type File struct {
	Digest string `json:"digest,omitempty"` // sha256:..., of a regular file
	Mode   uint32 `json:"mode"`             // permission bits
	Link   string `json:"link,omitempty"`   // target of a symbolic link
	Dir    bool   `json:"dir,omitempty"`
	// Ours is set when the journal of this cluster has the file and its content is
	// still the one in the journal.
	Ours bool `json:"ours,omitempty"`
}
