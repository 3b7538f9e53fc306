package kyverno

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/registry/ref"
)

// DefaultFrom is the default base of the Kyverno BaseImage.
const DefaultFrom = "kubernetes-rawdocker:v1.19.8"

// A Context is the build context of a BaseImage that redirects pulls.
type Context struct {
	Redirect redirect.Redirect // not Exact: later images add to the BaseImage
	From     string            // the base; "" is DefaultFrom

	// Manifest installs Kyverno; an AdmissionPolicy needs none. ManifestName is
	// its file or URL, for errors. Version replaces the tag latest of Kyverno's
	// own images in it; "" keeps the tag.
	Manifest     []byte
	ManifestName string
	Version      string
	Find         Finder
	// Known are the references of an imageList from an earlier run: the originals
	// of the images that Manifest already takes from the private registry.
	Known []ref.Reference
}

// Files returns the files of the context: Kubefile, imageList, the install
// manifest with its images rewritten, the policy, the wait script. Equal
// contexts give equal files.
func (c Context) Files() ([]redirect.File, error) {
	c.Redirect = c.Redirect.WithDefaults()
	d := c.Redirect
	switch {
	case d.Engine == redirect.Containerd:
		return nil, errors.New("engine containerd needs no BaseImage: its files belong on the nodes")
	case d.Exact:
		return nil, errors.New("a BaseImage redirects all images: the images built on it add more")
	}
	policy, err := d.Policy()
	if err != nil {
		return nil, err
	}
	wait, err := d.WaitScript()
	if err != nil {
		return nil, err
	}
	installs := d.Engine != redirect.AdmissionPolicy
	kubefile, err := renderKubefile(cmp.Or(c.From, DefaultFrom), d.WaitScriptName(), installs)
	if err != nil {
		return nil, err
	}
	files := []redirect.File{
		{Path: "Kubefile", Content: kubefile},
		{Path: "etc/redirect-registry.yaml", Content: policy[0].Content},
		{Path: "scripts/" + d.WaitScriptName() + ".sh", Content: wait, Executable: true},
	}
	if !installs {
		return files, nil
	}
	rewritten, err := c.rewrite()
	if err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, r := range rewritten.Images {
		fmt.Fprintln(&list, r)
	}
	return append(files,
		redirect.File{Path: "etc/install.yaml", Content: rewritten.Manifest},
		redirect.File{Path: "imageList", Content: []byte(list.String())}), nil
}

//go:embed templates/kubefile.tmpl
var templateFiles embed.FS

func renderKubefile(from, script string, installs bool) ([]byte, error) {
	t, err := template.ParseFS(templateFiles, "templates/kubefile.tmpl")
	if err != nil {
		return nil, fmt.Errorf("template kubefile: %w", err)
	}
	var b bytes.Buffer
	view := struct {
		From, Script string
		Install      bool
	}{from, script, installs}
	if err := t.Execute(&b, view); err != nil {
		return nil, fmt.Errorf("template kubefile: %w", err)
	}
	return b.Bytes(), nil
}
