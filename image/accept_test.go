package image_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	buildah := map[string]string{"io.buildah.version": "1.27.1"}
	for name, tc := range map[string]struct {
		mediaType   string
		annotations map[string]string
		config      ocispec.ImageConfig
		want        string // "" accepts
	}{
		"ClusterImage":       {mediaType: image.MediaTypeConfig},
		"extension":          {annotations: map[string]string{image.AnnotationExtension: "{}"}},
		"images":             {annotations: map[string]string{image.AnnotationContainerImages: "[]"}},
		"label of sealer":    {config: ocispec.ImageConfig{Labels: map[string]string{"cluster.alpha.sealer.io/kube-cni-calico": "true"}}},
		"buildah":            {config: ocispec.ImageConfig{Labels: buildah, Cmd: []string{"kubectl apply -f x"}}},
		"buildah, service":   {config: ocispec.ImageConfig{Labels: buildah, Entrypoint: []string{"/x"}}, want: "but an ordinary container image"},
		"buildah, port":      {config: ocispec.ImageConfig{Labels: buildah, ExposedPorts: map[string]struct{}{"80/tcp": {}}}, want: "but an ordinary container image"},
		"buildah, both":      {config: ocispec.ImageConfig{Labels: buildah, Entrypoint: []string{"/x"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}}, want: "but an ordinary container image"},
		"buildah, volume":    {config: ocispec.ImageConfig{Labels: buildah, ExposedPorts: map[string]struct{}{"80/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}}, want: "but an ordinary container image"},
		"buildah, user":      {config: ocispec.ImageConfig{Labels: buildah, User: "1000"}, want: "but an ordinary container image"},
		"container image":    {config: ocispec.ImageConfig{Cmd: []string{"nginx"}}, want: "but an ordinary container image"},
		"Helm chart":         {mediaType: "application/vnd.cncf.helm.config.v1+json", want: "but a Helm chart"},
		"another artifact":   {mediaType: "application/vnd.oci.empty.v1+json", want: `its config is a "application/vnd.oci.empty.v1+json"`},
		"labels of somebody": {config: ocispec.ImageConfig{Labels: map[string]string{"maintainer": "x"}}, want: "but an ordinary container image"},
	} {
		if tc.mediaType == "" {
			tc.mediaType = ocispec.MediaTypeImageConfig
		}
		m := &ocispec.Manifest{Config: ocispec.Descriptor{MediaType: tc.mediaType}, Annotations: tc.annotations}
		err := image.Accept(m, func() ([]byte, error) { return json.Marshal(ocispec.Image{Config: tc.config}) })
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, image.ErrForeign) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
