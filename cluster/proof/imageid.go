package proof

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

// parseID returns the digest in the imageID of a container's status. Runtimes
// write it in these forms:
//
//	docker.io/library/nginx@sha256:...                    containerd, CRI-O
//	sha256:...                                            a config, containerd/containerd#8408
//	docker-pullable://nginx@sha256:...                    Docker, kubernetes/kubernetes#95968
//	docker://sha256:...                                   Docker, built on the node
func parseID(s string) (digest.Digest, error) {
	id := s
	if _, after, ok := strings.Cut(id, "://"); ok {
		id = after
	}
	if i := strings.LastIndexByte(id, '@'); i >= 0 {
		id = id[i+1:]
	}
	if d := digest.Digest(id); ref.IsSHA256(d) {
		return d, nil
	}
	return "", fmt.Errorf("image ID %.200q: it holds no sha256 digest", s)
}
