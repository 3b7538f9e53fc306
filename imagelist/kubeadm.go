package imagelist

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// A kubeadmConfig is a ClusterConfiguration: kubeadm init pulls the images of
// the control plane that follow from it.
type kubeadmConfig struct {
	place    place
	node     *yaml.Node
	defaults bool // it names nothing that kubeadm config images list takes
}

// A kubeadmRelease are the images that kubeadm of one minor version pulls beside
// those of Kubernetes itself. The source is the table of versions in
// kubeadm's constants, as it was in the first release of that minor version; a
// later patch release may have newer ones.
type kubeadmRelease struct{ etcd, coredns, pause string }

var kubeadmReleases = map[int]kubeadmRelease{
	19: {"3.4.13-0", "1.7.0", "3.2"}, 20: {"3.4.13-0", "1.7.0", "3.2"}, 21: {"3.4.13-0", "v1.8.0", "3.4.1"},
	22: {"3.5.0-0", "v1.8.4", "3.5"}, 23: {"3.5.1-0", "v1.8.6", "3.6"}, 24: {"3.5.3-0", "v1.8.6", "3.7"},
	25: {"3.5.4-0", "v1.9.3", "3.8"}, 26: {"3.5.6-0", "v1.9.3", "3.9"}, 27: {"3.5.7-0", "v1.10.1", "3.9"},
	28: {"3.5.9-0", "v1.10.1", "3.9"}, 29: {"3.5.10-0", "v1.11.1", "3.9"}, 30: {"3.5.12-0", "v1.11.1", "3.9"},
	31: {"3.5.15-0", "v1.11.1", "3.10"}, 32: {"3.5.16-0", "v1.11.3", "3.10"}, 33: {"3.5.21-0", "v1.12.0", "3.10"},
	34: {"3.6.4-0", "v1.12.1", "3.10.1"},
}

var kubeadmGap = cause{Open, "kubeadm", "", "put the bin/kubeadm of that version into the rootfs, or write the output of kubeadm config images list into manifests/imageList, " + declare}

// kubeadm adds the images that kubeadm pulls for each ClusterConfiguration
// found: as its own program says (Options.Kubeadm), else as the image lists
// say, else as the table says.
func (s *scanner) kubeadm() {
	s.partsOfKubeadm()
	for _, c := range s.kubeadmConfigs {
		flags := c.place.kind == kubeadmCommand && len(c.node.Content) > 0 // they are no file to ask with
		if s.o.Kubeadm != nil && c.place.embedded == 0 && !flags {
			config := c.place.file
			if c.defaults {
				config = ""
			}
			images, err := s.o.Kubeadm(s.ctx, config)
			if err == nil && len(images) > 0 {
				s.asked(c, images)
				continue
			}
			if err != nil && !errors.Is(err, ErrNoKubeadm) {
				s.warn("%s: kubeadm config images list: %v", c.place.file, err)
			}
		}
		s.computed(c)
	}
	// The other modes do not read the directories of programs and settings: there a
	// configuration may lie that they do not see.
	whole := s.o.Mode == "" || s.o.Mode == ModeAuto
	if whole && len(s.kubeadmConfigs) == 0 && s.o.Kubeadm != nil && !s.hasControlPlane() {
		s.unconfigured()
	}
}

// hasControlPlane reports whether a list names the images of Kubernetes itself.
func (s *scanner) hasControlPlane() bool {
	return slices.ContainsFunc(s.res.Found, func(f Finding) bool { return path.Base(f.Reference.Repository) == "kube-apiserver" })
}

// unconfigured adds the images that a kubeadm of the rootfs pulls without a
// configuration in the files: sealer run writes one of its version.
func (s *scanner) unconfigured() {
	images, err := s.o.Kubeadm(s.ctx, "")
	at := place{file: "bin/kubeadm"}
	switch {
	case errors.Is(err, ErrNoKubeadm):
		return
	case err != nil || len(images) == 0:
		s.addGap(kubeadmGap, Gap{Subject: "kubeadm", File: at.file, Reason: "the images that it pulls are not known, since it does not tell its version here"})
		return
	}
	s.asked(kubeadmConfig{place: at, node: &yaml.Node{Kind: yaml.MappingNode}}, images)
}

// ErrNoKubeadm is returned by Options.Kubeadm where there is no program to ask.
var ErrNoKubeadm = errors.New("no kubeadm for this machine in the rootfs")

// A Kubeadm asks the kubeadm of the rootfs which images it pulls for the
// configuration at a path of the rootfs, or for none where the path is "".
type Kubeadm func(ctx context.Context, config string) ([]string, error)

// A controlPlaneImage is one image that kubeadm asks for.
type controlPlaneImage struct {
	name       string // last part of the repository
	repository string // without it
	tag        string
	line       int
}

func (im controlPlaneImage) String() string { return im.repository + "/" + im.name + ":" + im.tag }

// asked adds the images that kubeadm itself names.
func (s *scanner) asked(c kubeadmConfig, images []string) {
	line := s.lineOf(c, "kubernetesVersion")
	minor := kubeadmMinor(text(c.node, "kubernetesVersion"))
	for _, text := range images {
		r, err := ref.Parse(strings.TrimSpace(text))
		if err != nil {
			s.warn("%s: kubeadm config images list: %q: %v", c.place.file, text, err)
			continue
		}
		name := r.Repository[strings.LastIndexByte(r.Repository, '/')+1:]
		im := controlPlaneImage{name, strings.TrimSuffix(r.Registry+"/"+r.Repository, "/"+name), r.Tag, line}
		s.controlPlane(c, im, minor, Certain)
	}
}

// lineOf is the line of a value, or of one that has to do with it.
func (s *scanner) lineOf(c kubeadmConfig, keys ...string) int {
	for _, path := range [][]string{keys, keys[:1], {"imageRepository"}, {"kubernetesVersion"}} {
		if n := get(c.node, path...); n != nil {
			return n.Line
		}
	}
	return c.node.Line
}

var releaseNumber = regexp.MustCompile(`^v?1\.(\d+)\.\d+`)

// kubeadmMinor is the minor version of Kubernetes, -1 when it is not known.
func kubeadmMinor(version string) int {
	m := releaseNumber.FindStringSubmatch(version)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}

// computed adds the images that follow from the configuration, by the rules of
// kubeadm's images package.
func (s *scanner) computed(c kubeadmConfig) {
	version := text(c.node, "kubernetesVersion")
	if kubeadmMinor(version) < 0 {
		version = s.clusterVersion
	}
	minor := kubeadmMinor(version)
	if minor < 0 {
		s.addGap(kubeadmGap, Gap{Subject: "kubeadm", File: c.place.file, Line: c.place.base + s.lineOf(c, "kubernetesVersion"), Text: text(c.node, "kubernetesVersion"),
			Reason: "kubeadm pulls the images of a version that is not known here"})
		return
	}
	version = "v" + strings.TrimPrefix(strings.ReplaceAll(version, "+", "_"), "v")
	repository := text(c.node, "imageRepository")
	line := s.lineOf(c, "kubernetesVersion")
	home := defaultRepository(minor)
	if repository == "" {
		repository = home
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		s.controlPlane(c, controlPlaneImage{name, repository, version, line}, minor, Certain)
	}
	var guessed, unknown []string
	for _, im := range s.companions(c, minor, repository) {
		listed := im.tag != "" || s.listedTag(&im)
		switch known := kubeadmReleases[minor]; {
		case listed:
		case known == (kubeadmRelease{}):
			unknown = append(unknown, im.name)
			continue
		default:
			im.tag = map[string]string{"etcd": known.etcd, "coredns": known.coredns, "pause": known.pause}[im.name]
			guessed = append(guessed, im.name+" "+im.tag)
		}
		s.controlPlane(c, im, minor, High)
	}
	g := Gap{Subject: "kubeadm", File: c.place.file, Line: c.place.base + line}
	switch {
	case len(unknown) > 0:
		g.Reason = fmt.Sprintf("which %s kubeadm %s pulls is not known here", strings.Join(unknown, ", "), version)
		s.addGap(kubeadmGap, g)
	case len(guessed) > 0:
		doubtful := kubeadmGap
		doubtful.grade = Doubtful
		g.Reason = fmt.Sprintf("%s are those of the first kubeadm 1.%d; that of %s may pull others", strings.Join(guessed, ", "), minor, version)
		s.addGap(doubtful, g)
	}
}

// companions are the images beside those of Kubernetes itself, without a tag
// where the configuration names none.
func (s *scanner) companions(c kubeadmConfig, minor int, repository string) []controlPlaneImage {
	dns := repository
	if repository == defaultRepository(minor) && minor >= 21 {
		dns += "/coredns"
	}
	if own := text(c.node, "dns", "imageRepository"); own != "" {
		dns = own
	}
	out := []controlPlaneImage{
		{"coredns", dns, text(c.node, "dns", "imageTag"), s.lineOf(c, "dns", "imageTag")},
		{"pause", repository, "", s.lineOf(c, "imageRepository")},
	}
	if get(c.node, "etcd", "external") == nil {
		etcd := repository
		if own := text(c.node, "etcd", "local", "imageRepository"); own != "" {
			etcd = own
		}
		out = append(out, controlPlaneImage{"etcd", etcd, text(c.node, "etcd", "local", "imageTag"), s.lineOf(c, "etcd")})
	}
	return out
}

// defaultRepository is kubeadm's, which changed in 1.25.
func defaultRepository(minor int) string {
	if minor < 25 {
		return "k8s.gcr.io"
	}
	return "registry.k8s.io"
}

// listedTag takes the tag of an image that a list names for the same purpose:
// who writes etcd into the list knows which one kubeadm asks for.
func (s *scanner) listedTag(im *controlPlaneImage) bool {
	for _, f := range s.res.Found {
		if (f.Rule == "image-list" || f.Rule == "include") && path.Base(f.Reference.Repository) == im.name && f.Reference.Tag != "" {
			im.tag = f.Reference.Tag
			return true
		}
	}
	return false
}

// controlPlane adds one image. Where kubeadm asks the private registry, the
// image must be inside under that path: an image that has the path by itself is
// mirrored from the default repository; coredns has not, and is a fault.
func (s *scanner) controlPlane(c kubeadmConfig, im controlPlaneImage, minor int, sure Confidence) {
	r, err := ref.Parse(im.String())
	at := spot{im.line, "", im.String(), "kubeadm"}
	switch {
	case err != nil || isPlaceholder(im.String()):
		s.gap(c.place, at, placeholderGap, "")
		return
	case r.Registry != s.o.PrivateRegistry:
		s.found(c.place, at, sure, r)
		return
	case s.provides(r):
		s.found(c.place, at, sure, r)
		return
	case r.Repository == "coredns" && minor != -1 && minor < 21, r.Repository == im.name && im.name != "coredns":
		s.found(c.place, at, sure, r)
		at.written = defaultRepository(max(minor, 0)) + "/" + im.name + ":" + im.tag
		if minor < 0 {
			at.written = "registry.k8s.io/" + im.name + ":" + im.tag
		}
	case r.Repository == "coredns/coredns":
		s.found(c.place, at, sure, r)
		at.written = "registry.k8s.io/coredns/coredns:" + im.tag
		if minor >= 0 {
			at.written = defaultRepository(minor) + "/coredns/coredns:" + im.tag
		}
	case r.Repository == "coredns":
		s.fault(fault{file: c.place.file, line: c.place.base + im.line, text: im.String(), hard: true,
			err: fmt.Errorf("kubeadm asks for this name, and the image is %s/coredns/coredns in the private registry: write dns: {imageRepository: %s/coredns}", s.o.PrivateRegistry, im.repository)})
		return
	default:
		s.found(c.place, at, sure, r) // a requirement, which the build checks
		return
	}
	if source, err := ref.Parse(at.written); err == nil {
		s.found(c.place, at, sure, source)
	}
}

// provides reports whether an image was found that has the path and the tag of
// r in the private registry.
func (s *scanner) provides(r ref.Reference) bool {
	return slices.ContainsFunc(s.res.Found, func(f Finding) bool {
		return f.Reference.Registry != r.Registry && f.Reference.Repository == r.Repository && f.Reference.Tag == r.Tag && f.Confidence.Mirrored()
	})
}
