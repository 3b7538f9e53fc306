package imagelist

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// Images that machines pull by themselves, not for an object: the pod sandbox that
// containerd, CRI-O and the kubelet are set to.

var (
	// sandboxSetting is sandbox_image of containerd up to configuration version 2,
	// sandbox below pinned_images since, and pause_image of CRI-O.
	sandboxSetting = regexp.MustCompile(`(?m)^[^#\n]*?\b(sandbox_image|sandbox|pause_image)["']?[ \t]*=[ \t]*["']([^"'\n]+)["']`)
	// sandboxFlag is the flag of the kubelet and of cri-dockerd, and that of k3s.
	sandboxFlag = regexp.MustCompile(`(?m)^[^#\n]*?--?(pod-infra-container-image|pause-image)(?:=|[ \t]+)["']?([^\s"']+)`)
	// containerdPlugin is the table that has the setting of containerd.
	containerdPlugin = regexp.MustCompile(`(?m)^[ \t]*\[plugins\.["']io\.containerd\.(?:grpc\.v1\.cri|cri\.v1\.images)["']`)
)

var builtinSandbox = cause{Doubtful, "containerd", "names no sandbox_image: containerd pulls the pause image that is compiled into it, which need not be that of kubeadm",
	"write sandbox_image (below pinned_images: sandbox, from version 3), and the image into manifests/imageList, " + declare}

// nodeFile reports whether a name is one that settings of a machine's runtime or
// kubelet have, or those of kubeadm.
func nodeFile(name string) bool {
	base := strings.ToLower(path.Base(name))
	for _, ext := range []string{".tmpl", ".tpl", ".j2", ".etmpl"} {
		base = strings.TrimSuffix(base, ext)
	}
	dir := path.Base(path.Dir(name))
	switch path.Ext(base) {
	case ".toml", ".service":
		return true
	case ".conf":
		return strings.Contains(base, "crio") || strings.HasPrefix(dir, "crio.conf") || strings.HasSuffix(dir, ".service.d")
	case ".yml", ".yaml":
		return strings.Contains(base, "kubeadm")
	case ".env":
		return strings.Contains(base, "kube")
	}
	return base == "kubelet" && (dir == "default" || dir == "sysconfig")
}

// node takes the images in the settings of a machine.
func (s *scanner) node(name string, data []byte) {
	p, base := place{file: name, object: "containerd"}, path.Base(name)
	switch {
	case strings.Contains(base, ".toml"):
		if !strings.HasPrefix(base, "config.toml") && !strings.Contains(base, "containerd") && !containerdPlugin.Match(data) {
			return
		}
		if !s.sandboxes(p, string(data), 0, sandboxSetting) && containerdPlugin.Match(data) {
			s.addGap(builtinSandbox, Gap{File: name, Line: 1 + bytes.Count(data[:containerdPlugin.FindIndex(data)[0]], []byte("\n"))})
		}
	case strings.Contains(base, ".conf") && !strings.HasSuffix(path.Dir(name), ".service.d"):
		p.object = "crio"
		s.sandboxes(p, string(data), 0, sandboxSetting)
	default:
		p.object = "kubelet"
		s.nodeFlags(p, string(data), 0)
	}
}

// nodeFlags takes the images of flags in a text that begins behind line lines.
func (s *scanner) nodeFlags(p place, text string, line int) {
	if strings.Contains(text, "-image") {
		s.sandboxes(p, text, line, sandboxFlag)
	}
}

// sandboxes takes the images that an expression finds in a text, and reports
// whether there was any.
func (s *scanner) sandboxes(p place, text string, line int, setting *regexp.Regexp) bool {
	all := setting.FindAllStringSubmatchIndex(text, -1)
	for _, m := range all {
		s.sandbox(p, spot{line + 1 + strings.Count(text[:m[4]], "\n"), text[m[2]:m[3]], text[m[4]:m[5]], "containerd"})
	}
	return len(all) > 0
}

func (s *scanner) sandbox(p place, at spot) {
	if isPlaceholder(at.written) {
		g := placeholderGap
		g.grade = Doubtful
		s.gap(p, at, g, "")
		return
	}
	if r, err := ref.Parse(at.written); err == nil {
		s.found(p, at, Certain, r)
	}
}

// kubeletArgs takes the image of the sandbox from a configuration of kubeadm: a
// map of flags up to v1beta3, a list of names and values since.
func (s *scanner) kubeletArgs(p place, n *yaml.Node) {
	args := get(n, "nodeRegistration", "kubeletExtraArgs")
	for _, e := range entries(args) {
		if e.key == "pod-infra-container-image" && isScalar(e.value) {
			s.sandbox(p, spot{e.line, e.key, e.value.Value, "containerd"})
		}
	}
	for _, it := range items(args) {
		if v := get(it, "value"); text(it, "name") == "pod-infra-container-image" && isScalar(v) {
			s.sandbox(p, spot{v.Line, text(it, "name"), v.Value, "containerd"})
		}
	}
}

// isKubeadmPart reports whether an object configures kubeadm without naming a
// cluster's images: kubeadm takes its defaults for what is not there.
func (s *scanner) isKubeadmPart(p place) bool {
	named := strings.Contains(path.Base(p.file), "kubeadm")
	switch p.group {
	case "kubeadm.k8s.io":
		return p.embedded == 0 && (s.areaOf(p.file) == other || named)
	case "kubelet.config.k8s.io", "kubeproxy.config.k8s.io":
		return p.embedded == 0 && named
	}
	return false
}

// partsOfKubeadm takes one of the parts for the configuration of a cluster, where
// nothing else tells the images of its control plane.
func (s *scanner) partsOfKubeadm() {
	if len(s.kubeadmConfigs) > 0 || len(s.kubeadmParts) == 0 || s.o.ControlPlane || s.hasControlPlane() {
		return
	}
	parts := s.kubeadmParts
	i := max(0, slices.IndexFunc(parts, func(c kubeadmConfig) bool { return c.place.kind == "InitConfiguration" }))
	part := parts[i]
	part.defaults = part.place.kind != "InitConfiguration"
	s.kubeadmConfigs = append(s.kubeadmConfigs, part)
}

// kubeadmCommand is the kind of place of the flags of kubeadm init.
const kubeadmCommand = "command"

// kubeadm reads kubeadm init, join and config images pull.
func (st *starter) kubeadm(in commandPlace, cmd shellCommand) {
	node := &yaml.Node{Kind: yaml.MappingNode, Line: in.at.Line}
	set := func(key, value string) {
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: in.at.Line},
			&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: in.at.Line})
	}
	verb := ""
	for i := 1; i < len(cmd.words); i++ {
		flag, value, given := strings.Cut(cmd.words[i].text, "=")
		if verb == "" && !strings.HasPrefix(flag, "-") {
			verb = flag
		}
		w := word{text: value, dynamic: cmd.words[i].dynamic}
		if !given && i+1 < len(cmd.words) {
			w = cmd.words[i+1]
		}
		switch flag {
		case "--config":
			if len(st.scripts(in, w)) == 0 {
				st.noObjects(in, cmd, w)
			}
			return // the file tells
		case "--kubernetes-version":
			set("kubernetesVersion", w.text)
		case "--image-repository":
			set("imageRepository", w.text)
		}
	}
	pulls := verb == "init" || verb == "config" && slices.ContainsFunc(cmd.words, func(w word) bool { return w.text == "pull" })
	if pulls && st.limit == "" {
		st.s.kubeadmParts = append(st.s.kubeadmParts, kubeadmConfig{place: place{file: in.at.File, kind: kubeadmCommand}, node: node})
	}
}
