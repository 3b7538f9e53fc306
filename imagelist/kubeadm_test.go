package imagelist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestAskKubeadm takes the images that the rootfs's own kubeadm names before those
// that follow from its configuration.
func TestAskKubeadm(t *testing.T) {
	t.Parallel()
	const config = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.28.0\n"
	const names = "registry.k8s.io/kube-proxy:v1.28.7\nregistry.k8s.io/coredns/coredns:v1.10.1"
	apiServer := "registry.k8s.io/kube-apiserver:v1.28.0\n"
	init := "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {pod-infra-container-image: quay.io/x/pause:1, v: '2'}}\n"
	join := strings.ReplaceAll(strings.Replace(init, "v1beta3\nkind: Init", "v1beta4\nkind: Join", 1), "{pod-infra-container-image: quay.io/x/pause:1, v: '2'}", "[{name: v, value: '2'}, {name: pod-infra-container-image, value: quay.io/x/pause:2}]")
	for name, tc := range map[string]struct {
		files  map[string]string
		mode   string
		says   string // by kubeadm, "" none
		err    error
		asked  []string // the configurations
		images string   // some that are found
		not    string   // and one that is not
		warns  string   // a warning or a gap
	}{
		"a configuration":          {map[string]string{"etc/kubeadm.yml": config}, "", names, nil, []string{"etc/kubeadm.yml"}, "registry.k8s.io/kube-proxy:v1.28.7 registry.k8s.io/coredns/coredns:v1.10.1", "registry.k8s.io/etcd:3.5.9-0", ""},
		"no images":                {map[string]string{"etc/kubeadm.yml": config}, "", "", nil, []string{"etc/kubeadm.yml"}, "registry.k8s.io/etcd:3.5.9-0", "", ""},
		"no kubeadm":               {map[string]string{"etc/kubeadm.yml": config}, "", "", ErrNoKubeadm, []string{"etc/kubeadm.yml"}, "registry.k8s.io/etcd:3.5.9-0", "", ""},
		"an error":                 {map[string]string{"etc/kubeadm.yml": config}, "", "", errors.New("bad file"), []string{"etc/kubeadm.yml"}, "registry.k8s.io/etcd:3.5.9-0", "", "etc/kubeadm.yml: kubeadm config images list: bad file"},
		"an odd name":              {map[string]string{"etc/kubeadm.yml": config}, "", names + "\nNot An Image", nil, []string{"etc/kubeadm.yml"}, "registry.k8s.io/kube-proxy:v1.28.7", "", `"Not An Image"`},
		"none":                     {nil, "", names, nil, []string{""}, "registry.k8s.io/kube-proxy:v1.28.7", "", ""},
		"none, by its name":        {nil, ModeAuto, names, nil, []string{""}, "registry.k8s.io/kube-proxy:v1.28.7", "", ""},
		"none, no kubeadm":         {nil, "", "", ErrNoKubeadm, []string{""}, "", "", ""},
		"none, no images":          {nil, "", "", nil, []string{""}, "", "", "it does not tell its version here"},
		"none, an error":           {nil, "", names, errors.New("no"), []string{""}, "", "registry.k8s.io/kube-proxy:v1.28.7", "it does not tell its version here"},
		"another mode":             {nil, ModeSealer, names, nil, nil, "", "registry.k8s.io/kube-proxy:v1.28.7", ""},
		"a list has them":          {map[string]string{"manifests/imageList": apiServer}, "", names, nil, nil, "registry.k8s.io/kube-apiserver:v1.28.0", "registry.k8s.io/kube-proxy:v1.28.7", ""},
		"a part":                   {map[string]string{"etc/kubeadm.yml": init}, "", names, nil, []string{"etc/kubeadm.yml"}, "registry.k8s.io/kube-proxy:v1.28.7 quay.io/x/pause:1", "", ""},
		"another part":             {map[string]string{"etc/kubeadm.yml": join}, "", names, nil, []string{""}, "registry.k8s.io/kube-proxy:v1.28.7 quay.io/x/pause:2", "", ""},
		"two parts":                {map[string]string{"etc/kubeadm.yml": join + "---\n" + init}, "", names, nil, []string{"etc/kubeadm.yml"}, "quay.io/x/pause:1 quay.io/x/pause:2", "", ""},
		"the kubelet's settings":   {map[string]string{"etc/kubeadm.yml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}, "", names, nil, []string{""}, "registry.k8s.io/kube-proxy:v1.28.7", "", ""},
		"in a file of its own":     {map[string]string{"etc/kubelet.yml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"}, ModeSealer, names, nil, nil, "", "registry.k8s.io/kube-proxy:v1.28.7", ""},
		"a part among manifests":   {map[string]string{"manifests/init.yaml": init}, ModeSealer, names, nil, nil, "", "registry.k8s.io/kube-proxy:v1.28.7", ""},
		"an unknown version":       {map[string]string{"etc/kubeadm.yml": strings.Replace(config, "v1.28.0", "latest", 1)}, "", "", ErrNoKubeadm, []string{"etc/kubeadm.yml"}, "", "registry.k8s.io/kube-proxy:v1.28.0", "a version that is not known here"},
		"a version before pinning": {map[string]string{"etc/kubeadm.yml": strings.Replace(config, "v1.28.0", "v1.0.0", 1)}, "", "", ErrNoKubeadm, []string{"etc/kubeadm.yml"}, "k8s.gcr.io/kube-proxy:v1.0.0", "", ""},
	} {
		fsys := fstest.MapFS{}
		for file, text := range tc.files {
			fsys[file] = &fstest.MapFile{Data: []byte(text)}
		}
		var asked []string
		res, err := Scan(t.Context(), fsys, Options{Mode: tc.mode, Kubeadm: func(_ context.Context, config string) ([]string, error) {
			asked = append(asked, config)
			return strings.FieldsFunc(tc.says, func(r rune) bool { return r == '\n' }), tc.err
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var found []string
		for _, f := range res.Found {
			found = append(found, f.Reference.String())
		}
		for _, want := range strings.Fields(tc.images) {
			if !slices.Contains(found, want) {
				t.Errorf("%s: no %s in %v", name, want, found)
			}
		}
		if tc.not != "" && slices.Contains(found, tc.not) {
			t.Errorf("%s: %s is found", name, tc.not)
		}
		if tc.images == "" && len(found) > 0 {
			t.Errorf("%s: %v is found", name, found)
		}
		if diff := cmp.Diff(tc.asked, asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", name, diff)
		}
		if told := fmt.Sprint(res.Warnings, res.Gaps); !strings.Contains(told, tc.warns) {
			t.Errorf("%s: no %q in %s", name, tc.warns, told)
		}
	}
}
