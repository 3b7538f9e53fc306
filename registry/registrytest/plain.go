package registrytest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// PlainClusterImage returns a ClusterImage in the form of sealer 0.9 and later: a
// plain OCI image with annotations, whose private registry is part of its rootfs.
func PlainClusterImage() (Image, error) {
	mirrored, err := registryFiles("docker.io/calico/node:v3.27.0", "registry.k8s.io/pause:3.9")
	return Image{
		Name:      "docker.io/sealerio/kubernetes:v1-22-15",
		Platforms: []string{"linux/amd64", "linux/arm64"},
		Layers: []Layer{
			{Name: "COPY rootfs .", Files: map[string]string{
				"Metadata":                           `{"version":"v1.22.15","arch":"any"}`,
				"bin/kubeadm":                        "#!/bin/sh\necho kubeadm\n",
				"etc/kubeadm.yml":                    "kind: ClusterConfiguration\n",
				"old/file":                           "replaced below\n",
				"application/apps/calico/calico.sh":  "kubectl apply -f calico.yaml\n",
				"application/apps/kyverno/policy.sh": "kubectl apply -f policy.yaml\n",
			}},
			{Name: "RUN mirror", Shared: true, Files: mirrored},
			{Name: "RUN rm old/file", Files: map[string]string{"old/.wh.file": "", "old/new": "new\n"}},
		},
		Config: &ocispec.ImageConfig{
			Env:    []string{"PATH=/usr/bin", "Region=eu"},
			Labels: map[string]string{"io.buildah.version": "1.27.1", "cluster.alpha.sealer.io/kube-cni-calico": "true"},
		},
		Annotations: map[string]string{
			"sealer.image.extension": `{"buildClient":{"sealerVersion":"v0.9.3","buildahVersion":"1.27.1"},"schemaVersion":"v1alpha1","type":"kube-installer",` +
				`"applications":[{"name":"calico","type":"shell","launchfiles":["calico.sh"],"version":"v1"},` +
				`{"name":"kyverno","type":"shell","files":["policy.sh"],"version":"v1","cmds":["sh policy.sh -a <x>"],"env":{"K":"1"}}],` +
				`"labels":{"cluster.alpha.sealer.io/cluster-runtime-version":"v1.22.15"},"env":{"PodCIDR":"100.64.0.0/10"},"launch":{"app_names":["calico","kyverno"]}}`,
			"sealer.image.container.images": `[{"image":"calico/node:v3.27.0","appName":"calico","platform":{"os":"linux","architecture":"amd64"}},{"image":"registry.k8s.io/pause:3.9","platform":null}]`,
		},
	}, err
}

// registryFiles returns the files of a registry tree with images of Samples.
func registryFiles(names ...string) (files map[string]string, err error) {
	dir, err := os.MkdirTemp("", "registrytest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	images := slices.DeleteFunc(Samples(), func(i Image) bool { return !slices.Contains(names, i.Name) })
	if _, err := WriteLayer(dir, tree.NamingPath, images); err != nil {
		return nil, err
	}
	files = map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(b)
		return err
	})
	return files, err
}
