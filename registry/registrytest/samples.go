package registrytest

// Samples returns the images that most tests and the demo use: Docker and OCI
// formats, indexes and single manifests, shared layers, an attestation, a
// platform with a variant, several registries.
func Samples() []Image {
	all := []string{"linux/amd64", "linux/arm64", "linux/arm/v7"}
	two := []string{"linux/amd64", "linux/arm64"}
	base := []Layer{{Name: "debian", Size: 24 << 10}, {Name: "certificates", Shared: true}}
	on := func(layers ...Layer) []Layer { return append(base[:len(base):len(base)], layers...) }
	return []Image{
		{Name: "docker.io/library/nginx:latest", Platforms: all, Docker: true, Layers: on(Layer{Name: "nginx", Size: 16 << 10}, Layer{Name: "nginx-conf", Size: 300})},
		{Name: "docker.io/library/nginx:1.25", Platforms: two, Layers: on(Layer{Name: "nginx-1.25", Size: 16 << 10})},
		{Name: "docker.io/library/busybox:1.36", Docker: true, Layers: Layers("busybox")},
		{Name: "docker.io/library/redis:7", Platforms: two, Attestation: true, Layers: on(Layer{Name: "redis", Size: 12 << 10})},
		{Name: "docker.io/calico/node:v3.27.0", Platforms: two, Layers: Layers("calico", "calico-node")},
		{Name: "ghcr.io/kyverno/kyverno:v1.19.1", Platforms: two, Attestation: true, Layers: on(Layer{Name: "kyverno", Size: 32 << 10})},
		{Name: "ghcr.io/kyverno/kyvernopre:v1.19.1", Platforms: two, Layers: on(Layer{Name: "kyvernopre", Size: 8 << 10})},
		{Name: "ghcr.io/kyverno/background-controller:v1.19.1", Platforms: two, Layers: on(Layer{Name: "background-controller", Size: 8 << 10})},
		{Name: "ghcr.io/kyverno/cleanup-controller:v1.19.1", Platforms: two, Layers: on(Layer{Name: "cleanup-controller", Size: 8 << 10})},
		{Name: "ghcr.io/kyverno/reports-controller:v1.19.1", Platforms: two, Layers: on(Layer{Name: "reports-controller", Size: 8 << 10})},
		{Name: "quay.io/coreos/etcd:v3.5.9", Layers: Layers("etcd")},
		{Name: "registry.k8s.io/pause:3.9", Platforms: all, Docker: true, Layers: []Layer{{Name: "pause", Size: 500}}},
	}
}
