package image

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

const (
	// ArtifactType is the artifactType of a ClusterImage's manifest.
	ArtifactType = "application/vnd.sealer.clusterimage.v1"
	// MediaTypeConfig is the media type of a ClusterImage's config.
	MediaTypeConfig = "application/vnd.sealer.clusterimage.config.v1+json"

	// AnnotationLayerType and AnnotationLayerValue tell a layer's origin on
	// its descriptor in the manifest.
	AnnotationLayerType  = "io.sealer.layer.type"
	AnnotationLayerValue = "io.sealer.layer.value"

	// LayerTypeBase with RegistryLayerValue marks a registry layer.
	LayerTypeBase      = "BASE"
	RegistryLayerValue = "registry cache"

	// TypeKubeInstaller and TypeAppInstaller are the image types.
	TypeKubeInstaller = "kube-installer"
	TypeAppInstaller  = "app-installer"
)

// A Config is the config of a ClusterImage for one platform, as stored under
// MediaTypeConfig. Lists are in the order given; maps are encoded sorted by
// encoding/json, so that an equal Config has an equal digest.
type Config struct {
	Created         *time.Time        `json:"created,omitempty"` // set only where SOURCE_DATE_EPOCH is
	SealerVersion   string            `json:"sealerVersion"`
	Type            string            `json:"type"` // TypeKubeInstaller or TypeAppInstaller
	Platform        ocispec.Platform  `json:"platform"`
	Layers          []ConfigLayer     `json:"layers"`
	Cmd             Commands          `json:"cmd"`
	Args            Arguments         `json:"args"`
	Env             map[string]string `json:"env,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Maintainer      string            `json:"maintainer,omitempty"`
	Applications    []Application     `json:"applications,omitempty"`
	Launch          *Launch           `json:"launch,omitempty"`
	PrivateRegistry PrivateRegistry   `json:"registry"`
	Images          []MirroredImage   `json:"images,omitempty"`
	Gaps            []Gap             `json:"gaps,omitempty"`
}

// A ConfigLayer is a layer in stacking order, lowest first.
type ConfigLayer struct {
	ID    digest.Digest `json:"id"`   // of a rootfs layer the digest of its tar, of a registry layer of its document
	Type  string        `json:"type"` // FROM, COPY, RUN or BASE
	Value string        `json:"value"`
	Size  int64         `json:"size"` // bytes unpacked; of a registry layer the blobs that it adds
	// BlobManifests list the blobs of a registry layer that the image's manifest does
	// not list; empty where that lists them. WriteImage sets them.
	BlobManifests []BlobManifest `json:"blobManifests,omitempty"`
}

// Check returns an error for values that no image has: layers of a negative
// size, too many blob manifests, and a private registry that is no host[:port].
func (c *Config) Check() error {
	blobManifests := 0
	for i, l := range c.Layers {
		if l.Size < 0 {
			return fmt.Errorf("layer %d of %d bytes", i, l.Size)
		}
		blobManifests += len(l.BlobManifests)
	}
	if blobManifests > MaxBlobManifests {
		return fmt.Errorf("%d manifests of mirrored blobs, the limit is %d", blobManifests, MaxBlobManifests)
	}
	if c.PrivateRegistry.Name != "" {
		if err := ref.CheckHost(c.PrivateRegistry.Name); err != nil {
			return fmt.Errorf("private registry %w", err)
		}
	}
	if _, err := tree.ParseNaming(string(c.PrivateRegistry.Naming)); err != nil {
		return err
	}
	return nil
}

// Commands are the start commands: the base's first.
type Commands struct {
	Parent  []string `json:"parent,omitempty"`
	Current []string `json:"current,omitempty"`
}

// Arguments are the build arguments that CMD may use, with their values.
type Arguments struct {
	Parent  map[string]string `json:"parent,omitempty"`
	Current map[string]string `json:"current,omitempty"`
}

// An Application is described by APP, CNI or CSI.
type Application struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"` // helm, kube or shell
	Files   []string          `json:"files,omitempty"`
	Cmds    []string          `json:"cmds,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Version string            `json:"version,omitempty"`
}

// Launch lists the applications or commands that a start runs instead of every CMD.
type Launch struct {
	Apps []string `json:"apps,omitempty"`
	Cmds []string `json:"cmds,omitempty"`
}

// A PrivateRegistry is where the cluster pulls from.
type PrivateRegistry struct {
	Name   string      `json:"name"` // host[:port]
	Naming tree.Naming `json:"naming"`
}

// A MirroredImage is a container image that discovery recorded.
type MirroredImage struct {
	Reference Name          `json:"reference"`        // normalised, as the cluster asks before the redirect
	Source    Name          `json:"source,omitzero"`  // where it was mirrored from, when not Reference
	Digest    digest.Digest `json:"digest,omitempty"` // of the manifest or index; empty when it is missing
	Size      int64         `json:"size,omitempty"`   // bytes of all its blobs for the image's platform
	Platforms []string      `json:"platforms,omitempty"`
	Found     []Provenance  `json:"found,omitempty"`
	// Missing says why the image is listed but not mirrored: optional, low
	// confidence, announced, or allowed to be missing.
	Missing string `json:"missing,omitempty"`
}

// NotMirrored begins the Missing of an image that a build only lists.
const NotMirrored = "not mirrored: "

// Lacks reports whether the image should be inside and is not: a build that was
// allowed to went on without it.
func (m MirroredImage) Lacks() bool {
	return m.Missing != "" && !strings.HasPrefix(m.Missing, NotMirrored)
}

// A Provenance is one place where a reference was found.
type Provenance struct {
	File       string `json:"file"`
	Line       int    `json:"line,omitempty"`
	Object     string `json:"object,omitempty"` // Kind/namespace/name, or Kind/name
	Field      string `json:"field,omitempty"`
	Values     string `json:"values,omitempty"` // of a chart's template, the path in the chart's values
	Rule       string `json:"rule"`
	Confidence string `json:"confidence"`
	Written    string `json:"written,omitempty"` // as the file writes it, when not normalised
}

// GapOpen is the grade of a gap behind which images exist that the build did
// not know. All other gaps are doubtful: there may be such images.
const GapOpen = "open"

// A Gap is one cause for which container images may be missing in an image: the
// build could not know which.
type Gap struct {
	Grade    string `json:"grade"`            // GapOpen or doubtful
	Rule     string `json:"rule"`             // stable name of the kind of cause
	Subject  string `json:"subject"`          // names the cause, in .sealerimages too
	File     string `json:"file,omitempty"`   // in the rootfs
	Line     int    `json:"line,omitempty"`   // counts from 1
	Object   string `json:"object,omitempty"` // Kind/namespace/name, or Kind/name
	Field    string `json:"field,omitempty"`  // path in the object
	Text     string `json:"text,omitempty"`   // stands there
	Reason   string `json:"reason"`
	Remedy   string `json:"remedy,omitempty"`   // closes the gap
	Declared string `json:"declared,omitempty"` // reason of the author for leaving it
	More     int    `json:"more,omitempty"`     // further places with the same cause
}

// Blocks reports whether g keeps an image from being complete: it is open, and
// the author of the image did not declare it.
func (g Gap) Blocks() bool { return g.Grade == GapOpen && g.Declared == "" }

// String is one line: place, object, text and reason.
func (g Gap) String() string {
	at := g.File
	if g.Line > 0 {
		at += ":" + strconv.Itoa(g.Line)
	}
	for _, part := range []string{g.Object, g.Text, g.Reason} {
		if part != "" {
			at += ": " + part
		}
	}
	if g.More > 0 {
		at += fmt.Sprintf(" (and %d more)", g.More)
	}
	if g.Declared != "" {
		at += " (declared: " + g.Declared + ")"
	}
	return at
}
