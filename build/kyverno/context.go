package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// DefaultFrom is the base of the Kyverno BaseImage when the user names none.
const DefaultFrom = "kubernetes-rawdocker:v1.19.8"

// A Context is the build context of a BaseImage that redirects pulls.
type Context struct {
	Redirect Redirect // not Exact: images are added on top of it later
	From     string   // the base; "" is DefaultFrom

	// Manifest installs Kyverno; an AdmissionPolicy needs none. ManifestName is
	// where it came from. Version, where it is set, replaces the tag latest of
	// Kyverno's own images in it.
	Manifest     []byte
	ManifestName string
	Version      string
	Find         Finder
	// Known are the references of an imageList that is there already: the
	// originals of what Manifest has from the private registry.
	Known []ref.Reference
}

// Files returns the files of the context: Kubefile, imageList, the install
// manifest with its images rewritten, the policy, the wait script. Equal
// contexts give equal files.
func (c Context) Files() ([]File, error) {
	d := c.Redirect.withDefaults()
	switch {
	case d.Engine == Containerd:
		return nil, errors.New("engine containerd needs no BaseImage: its files belong on the nodes")
	case d.Exact:
		return nil, errors.New("a BaseImage redirects all images: what is built on it adds more")
	}
	policy, err := d.Policy()
	if err != nil {
		return nil, err
	}
	wait, err := d.WaitScript()
	if err != nil {
		return nil, err
	}
	install := d.Engine != AdmissionPolicy
	kubefile, err := render("kubefile", struct {
		From, Script string
		Install      bool
	}{cmp.Or(c.From, DefaultFrom), d.script(), install})
	if err != nil {
		return nil, err
	}
	files := []File{
		{Path: "Kubefile", Content: kubefile},
		{Path: "etc/redirect-registry.yaml", Content: policy[0].Content},
		{Path: "scripts/" + d.script() + ".sh", Content: wait, Executable: true},
	}
	if !install {
		return files, nil
	}
	rewritten, err := d.rewrite(c.ManifestName, c.Manifest, c.Version, c.Known, c.Find)
	if err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, r := range rewritten.Images {
		fmt.Fprintln(&list, r)
	}
	return append(files,
		File{Path: "etc/install.yaml", Content: rewritten.Manifest},
		File{Path: "imageList", Content: []byte(list.String())}), nil
}
