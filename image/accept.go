package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
)

const (
	mediaTypeHelmConfig = "application/vnd.cncf.helm.config.v1+json"
	labelBuildah        = "io.buildah.version"
	labelSealer         = "cluster.alpha.sealer.io/" // the beginning of sealer 0.9's labels
)

// ErrForeign says that an artifact is no ClusterImage.
var ErrForeign = errors.New("it is no ClusterImage")

// Accept returns an error that wraps ErrForeign, and says what the artifact is,
// unless m is the manifest of a ClusterImage. config reads the config of m; it is
// called only where the manifest does not tell.
//
// A plain OCI image is one of sealer 0.9 when its manifest has one of that
// version's annotations, or its config has a label of that version. An image with
// neither passes when buildah, which is part of sealer 0.9, built it and its
// config has nothing for which a Kubefile has no instruction: no entrypoint, no
// user, no ports and no volumes.
func Accept(m *ocispec.Manifest, config func() ([]byte, error)) error {
	switch {
	case IsConfig(m.Config.MediaType):
		return nil
	case m.Config.MediaType == mediaTypeHelmConfig:
		return fmt.Errorf("%w but a Helm chart", ErrForeign)
	case !platform.IsConfig(m.Config.MediaType):
		return fmt.Errorf("%w: its config is a %q", ErrForeign, m.Config.MediaType)
	case m.Annotations[AnnotationExtension] != "" || m.Annotations[AnnotationContainerImages] != "":
		return nil
	}
	b, err := config()
	if err != nil {
		return err
	}
	var c ocispec.Image
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("config %s: %w", m.Config.Digest, err)
	}
	if !ofSealer(c.Config) {
		return fmt.Errorf("%w but an ordinary container image", ErrForeign)
	}
	return nil
}

// ofSealer reports whether sealer 0.9 may have written the config of an image
// without its annotations.
func ofSealer(c ocispec.ImageConfig) bool {
	for label := range c.Labels {
		if strings.HasPrefix(label, labelSealer) {
			return true
		}
	}
	return c.Labels[labelBuildah] != "" && len(c.Entrypoint)+len(c.ExposedPorts)+len(c.Volumes) == 0 && c.User == ""
}
