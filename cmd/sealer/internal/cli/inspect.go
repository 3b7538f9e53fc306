package cli

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// inspection is the output of inspect. The field names in YAML and JSON are those
// of every version of sealer.
type inspection struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   inspectionMetadata `json:"metadata"`
	Spec       inspectionSpec     `json:"spec"`
}

type inspectionMetadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

type inspectionSpec struct {
	ID            string                `json:"id"`
	Digest        digest.Digest         `json:"digest"` // of the manifest for this platform
	SealerVersion string                `json:"sealer_version"`
	Platform      ocispec.Platform      `json:"platform"`
	Created       *time.Time            `json:"created,omitempty"`
	Size          int64                 `json:"size"`
	Layers        []inspectionLayer     `json:"layers"`
	ImageConfig   imageConfig           `json:"image_config"`
	Registry      image.PrivateRegistry `json:"registry"`
	Images        []string              `json:"images,omitempty"`
	// Attached counts the signatures, attestations and other artifacts that belong
	// to the images.
	Attached *attachedCount `json:"attached,omitempty"`
	Gaps     []image.Gap    `json:"gaps,omitempty"`
}

// attachedCount counts artifacts by the tags that lead to them.
type attachedCount struct {
	Signatures   int `json:"signatures"`   // cosign's .sig
	Attestations int `json:"attestations"` // cosign's .att
	SBOMs        int `json:"sboms"`        // cosign's .sbom
	Referrers    int `json:"referrers"`    // images with artifacts that name them as their subject
}

// countAttached counts the attachments in registry layers, nil where there are none.
func countAttached(docs []*tree.Document) *attachedCount {
	seen := map[string]bool{}
	var n attachedCount
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, t := range r.Tags {
				if !tree.IsAttachmentTag(t.Name) || seen[r.Name+":"+t.Name] {
					continue
				}
				seen[r.Name+":"+t.Name] = true
				switch path.Ext(t.Name) {
				case ".sig":
					n.Signatures++
				case ".att":
					n.Attestations++
				case ".sbom":
					n.SBOMs++
				default:
					n.Referrers++
				}
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return &n
}

// inspectionLayer is a layer. Its directory in the store is data/overlay2/ID.
type inspectionLayer struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Value string `json:"value"`
	Size  int64  `json:"size"`
}

type imageConfig struct {
	ImageType    string              `json:"image_type"`
	Cmd          image.Commands      `json:"cmd"`
	Args         image.Arguments     `json:"args"`
	Env          map[string]string   `json:"env,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Maintainer   string              `json:"maintainer,omitempty"`
	Applications []image.Application `json:"applications,omitempty"`
	Launch       *image.Launch       `json:"launch,omitempty"`
}

func (a *app) inspect() *cobra.Command {
	var o output
	var only platformFlag
	var images bool
	var bom string
	cmd := &cobra.Command{
		Use:   "inspect IMAGE",
		Short: "Print what an image is made of",
		Long: `Print what an image is made of: its layers, start commands, arguments, labels
and the container images inside. A layer lies unpacked in the store, at
data/overlay2/ID. A large registry layer that differs little from another one gets
its files there when they are needed: by mount, export or RUN. The annotations are
in -o json.

--sbom prints a software bill of materials instead, for one platform: the container
images, the layers, the charts, the files with their digests, and the packages and
licences that the container images' own SBOMs state. Nothing is guessed: NOASSERTION
stands for all that no SBOM says, and standard error counts the images without one.
The same image gives the same bytes.`,
		Example: `  sealer inspect my-app:v1
  sealer inspect my-app:v1 --images                 # the container images inside, and which file asks for each
  sealer inspect my-app:v1 --sbom spdx > my-app.spdx.json
  sealer inspect my-app:v1 --format '{{.Spec.ID}}'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.check(), checkSBOM(cmd, bom)); err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				im, err := s.Image(cmd.Context(), args[0], only.Platform)
				if err != nil {
					return notFound(err)
				}
				if bom != "" {
					return a.printSBOM(cmd.Context(), s, im, args[0], bom)
				}
				if images {
					if !cmd.Flags().Changed("output") {
						o.kind = "text"
					}
					return a.printMirrored(&o, im.Config.Images)
				}
				v := inspectImage(args[0], im)
				if o.kind != "json" && o.format == "" {
					v.Metadata.Annotations = nil // thousands of characters that repeat the rest
				}
				return o.print(a.Out, v, nil)
			})
		},
	}
	cmd.Flags().Var(&only, "platform", "the platform of a multi-platform image (default: this machine's, else the first)")
	cmd.Flags().BoolVar(&images, "images", false, "print the container images inside, with their digests and where each was found")
	cmd.Flags().StringVar(&bom, "sbom", "", "print a software bill of materials as JSON: `spdx|cyclonedx` (SPDX 2.3, CycloneDX 1.6)")
	o.flags(cmd, "yaml")
	return cmd
}

func inspectImage(asked string, im *store.Image) inspection {
	c := im.Config
	name := shownName(asked, im)
	v := inspection{
		APIVersion: "sealer.cloud/v1",
		Kind:       "Image",
		Metadata:   inspectionMetadata{Name: name, Annotations: im.Manifest.Annotations, Labels: c.Labels},
		Spec: inspectionSpec{
			ID: "sha256:" + im.ID, Digest: im.ManifestDescriptor.Digest, SealerVersion: c.SealerVersion, Platform: c.Platform, Created: c.Created, Size: im.Size,
			ImageConfig: imageConfig{
				ImageType: c.Type, Cmd: c.Cmd, Args: c.Args, Env: c.Env, Labels: c.Labels, Maintainer: c.Maintainer,
				Applications: c.Applications, Launch: c.Launch,
			},
			Registry: c.PrivateRegistry,
			Gaps:     c.Gaps,
			Attached: countAttached(im.Documents),
		},
	}
	for _, l := range c.Layers {
		v.Spec.Layers = append(v.Spec.Layers, inspectionLayer{ID: l.ID.Encoded(), Type: l.Type, Value: l.Value, Size: l.Size})
	}
	for _, m := range c.Images {
		v.Spec.Images = append(v.Spec.Images, m.Reference.String())
	}
	return v
}

// printMirrored prints container images, one a line, each followed by the places
// that ask for it.
func (a *app) printMirrored(o *output, images []image.MirroredImage) error {
	text := func(w io.Writer) error {
		for _, m := range images {
			state := fmt.Sprintf("%s  %s", m.Digest, size(m.Size))
			if m.Missing != "" {
				state = "NOT INSIDE: " + m.Missing
			}
			printf(w, "%s\n    %s\n", m.Reference, strings.TrimSpace(state+"  "+strings.Join(m.Platforms, ",")))
			for _, p := range m.Found {
				printf(w, "    %s\n", place(p))
			}
		}
		return nil
	}
	return o.print(a.Out, images, text, anys(images)...)
}

// place prints a provenance: file:line, object, field, rule, confidence.
func place(p image.Provenance) string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	parts := []string{at}
	for _, s := range []string{p.Object, p.Field} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("(%s, %s)", p.Rule, p.Confidence)), "  ")
}
