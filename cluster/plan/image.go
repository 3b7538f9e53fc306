package plan

// An Image is the description of a ClusterImage that a plan is made from.
type Image struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the manifest for this platform
	Arch   string `json:"arch"`
	Type   string `json:"type"` // kube-installer, app-installer

	// Layers are the blobs of the rootfs layers, lowest first. Registry are the
	// blobs of the mirrored images and the documents that name them.
	Layers   []Blob `json:"layers"`
	Registry []Blob `json:"registry,omitempty"`

	// Hosts are the source registries of the mirrored images, sorted.
	Hosts []string `json:"hosts,omitempty"`
	// References are the public references of the mirrored images, sorted.
	References []string `json:"references,omitempty"`
	// Private is the name of the private registry: sea.hub:5000.
	Private string `json:"private"`
	// Kubernetes is the version of Metadata or of the image's label, "" when
	// neither is there.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Files are the paths of the rootfs and their modes, without directories
	// and without the registry's tree.
	Files map[string]uint32 `json:"files,omitempty"`
	// Commands run on the first master once the cluster runs, in order.
	Commands []Command `json:"commands,omitempty"`
}

// A Blob is a blob of an image.
type Blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// A Command is one start command of an image.
type Command struct {
	App string            `json:"app,omitempty"` // the application that it belongs to
	Run string            `json:"run"`           // for sh -c
	Dir string            `json:"dir,omitempty"` // inside the rootfs
	Env map[string]string `json:"env,omitempty"`
}
