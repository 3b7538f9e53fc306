package image

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

const (
	// AnnotationExtension and AnnotationContainerImages are the annotations of
	// a manifest by which sealer 0.9 and later make a ClusterImage of a plain
	// OCI image; see pkg/define/image/v1 of github.com/sealerio/sealer.
	AnnotationExtension       = "sealer.image.extension"
	AnnotationContainerImages = "sealer.image.container.images"
)

// An Extension is the value of AnnotationExtension.
type Extension struct {
	BuildClient   BuildClient       `json:"buildClient"`
	SchemaVersion string            `json:"schemaVersion"`
	Type          string            `json:"type,omitempty"`
	Applications  []ExtensionApp    `json:"applications,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Launch        ExtensionLaunch   `json:"launch"`
}

// An ExtensionApp is an Application whose files are named in its own directory.
type ExtensionApp struct {
	Application
	// LaunchFiles is the name of Files in some versions.
	LaunchFiles []string `json:"launchfiles,omitempty"`
}

// AppDir returns the directory of an application in the rootfs.
func AppDir(name string) string { return path.Join("application/apps", name) }

// applications returns the applications with the paths of their files.
func (e *Extension) applications() []Application {
	var out []Application
	for _, a := range e.Applications {
		app := a.Application
		app.Files = nil
		for _, f := range append(a.Files, a.LaunchFiles...) {
			app.Files = append(app.Files, path.Join(AppDir(a.Name), f))
		}
		out = append(out, app)
	}
	return out
}

// BuildClient names the programs that built an image.
type BuildClient struct {
	SealerVersion  string `json:"sealerVersion"`
	BuildahVersion string `json:"buildahVersion"`
}

// ExtensionLaunch lists the commands and applications that a start runs.
type ExtensionLaunch struct {
	Cmds     []string `json:"cmds,omitempty"`
	AppNames []string `json:"app_names,omitempty"`
}

// An ExtensionImage is an element of the value of AnnotationContainerImages, a
// list.
type ExtensionImage struct {
	Image    string            `json:"image"`
	AppName  string            `json:"appName,omitempty"`
	Platform *ocispec.Platform `json:"platform,omitempty"`
}

// FromPlain translates the config of a plain OCI image.
func FromPlain(m *ocispec.Manifest, c *ocispec.Image) (Config, error) {
	if len(c.RootFS.DiffIDs) != len(m.Layers) {
		return Config{}, fmt.Errorf("the config has %d layers, the manifest %d", len(c.RootFS.DiffIDs), len(m.Layers))
	}
	var ext Extension
	if v := m.Annotations[AnnotationExtension]; v != "" {
		if err := json.Unmarshal([]byte(v), &ext); err != nil {
			return Config{}, fmt.Errorf("annotation %s: %w", AnnotationExtension, err)
		}
	}
	out := Config{
		SealerVersion:   ext.BuildClient.SealerVersion,
		Type:            ext.Type,
		Platform:        platform.Normalize(c.Platform),
		Cmd:             Commands{Current: plainCommands(c.Config)},
		Env:             map[string]string{},
		Labels:          map[string]string{},
		Maintainer:      c.Author,
		Applications:    ext.applications(),
		PrivateRegistry: PrivateRegistry{Name: ref.DefaultPrivate, Naming: tree.NamingPath},
	}
	if out.Type == "" {
		out.Type = TypeKubeInstaller
	}
	origin := plainOrigins(c)
	for i, id := range c.RootFS.DiffIDs {
		out.Layers = append(out.Layers, ConfigLayer{ID: id, Type: "FROM", Value: origin[i]})
	}
	for _, kv := range c.Config.Env {
		k, v, _ := strings.Cut(kv, "=")
		out.Env[k] = v
	}
	for _, from := range []map[string]string{c.Config.Labels, ext.Labels} {
		for k, v := range from {
			out.Labels[k] = v
		}
	}
	for k, v := range ext.Env {
		out.Env[k] = v
	}
	if len(ext.Launch.Cmds)+len(ext.Launch.AppNames) > 0 {
		out.Launch = &Launch{Apps: ext.Launch.AppNames, Cmds: ext.Launch.Cmds}
	}
	images, err := plainImages(m.Annotations[AnnotationContainerImages])
	out.Images = images
	return out, err
}

// plainImages reads the annotation's list of images.
func plainImages(annotation string) ([]MirroredImage, error) {
	if annotation == "" {
		return nil, nil
	}
	var list []ExtensionImage
	if err := json.Unmarshal([]byte(annotation), &list); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", AnnotationContainerImages, err)
	}
	var out []MirroredImage
	for _, i := range list {
		m := MirroredImage{Reference: ParseName(i.Image)}
		if i.Platform != nil {
			m.Platforms = []string{platform.String(*i.Platform)}
		}
		found := Provenance{Rule: AnnotationContainerImages, Confidence: "certain"}
		if i.AppName != "" {
			found.Object = "application/" + i.AppName
		}
		m.Found = []Provenance{found}
		out = append(out, m)
	}
	return out, nil
}

// plainCommands returns the start commands of a plain image: Dockerfile's
// shell form without its shell, and the exec form as one command.
func plainCommands(c ocispec.ImageConfig) []string {
	switch {
	case len(c.Cmd) == 0:
		return nil
	case len(c.Cmd) == 3 && c.Cmd[1] == "-c" && strings.HasSuffix(c.Cmd[0], "sh"):
		return c.Cmd[2:]
	}
	return []string{strings.Join(c.Cmd, " ")}
}

// plainOrigins returns for each layer the history's word for its step, or "".
func plainOrigins(c *ocispec.Image) []string {
	out := make([]string, len(c.RootFS.DiffIDs))
	i := 0
	for _, h := range c.History {
		if !h.EmptyLayer && i < len(out) {
			out[i] = h.CreatedBy
			i++
		}
	}
	return out
}

// Annotations returns the annotations of c's manifest by which tools of sealer 0.9
// know a ClusterImage; FromPlain reads them.
func (c *Config) Annotations() map[string]string {
	ext := Extension{
		BuildClient:   BuildClient{SealerVersion: c.SealerVersion},
		SchemaVersion: "v1alpha1",
		Type:          c.Type,
		Labels:        c.Labels,
		Env:           c.Env,
	}
	for _, a := range c.Applications {
		app := ExtensionApp{Application: a}
		app.Files = nil
		for _, f := range a.Files {
			app.Files = append(app.Files, strings.TrimPrefix(f, AppDir(a.Name)+"/"))
		}
		ext.Applications = append(ext.Applications, app)
	}
	if c.Launch != nil {
		ext.Launch = ExtensionLaunch{Cmds: c.Launch.Cmds, AppNames: c.Launch.Apps}
	}
	var images []ExtensionImage
	for _, im := range c.Images {
		if im.Missing == "" {
			images = append(images, ExtensionImage{Image: im.Reference.String(), AppName: appOf(im), Platform: &c.Platform})
		}
	}
	out := map[string]string{AnnotationExtension: compactJSON(ext)}
	if images != nil {
		out[AnnotationContainerImages] = compactJSON(images)
	}
	return out
}

// compactJSON encodes plain data, which always succeeds, leaving <, > and & as
// they are.
func compactJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.TrimSpace(b.String())
}

// appOf returns the application whose files ask for an image, or "".
func appOf(im MirroredImage) string {
	for _, p := range im.Found {
		if rest, ok := strings.CutPrefix(p.File, AppDir("")+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			return name
		}
	}
	return ""
}
