package imagelist

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// growing is a file system whose one file is longer than it says, as those of
// /proc are.
type growing struct{ strings.Reader }

func (g *growing) Open(string) (fs.File, error) { return g, nil }
func (g *growing) Stat() (fs.FileInfo, error)   { return g, nil }
func (g *growing) Close() error                 { return nil }
func (*growing) Name() string                   { return "file" }
func (*growing) Size() int64                    { return 0 }
func (*growing) Mode() fs.FileMode              { return 0 }
func (*growing) ModTime() time.Time             { return time.Time{} }
func (*growing) IsDir() bool                    { return false }
func (*growing) Sys() any                       { return nil }

func TestReadLimited(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"": true, "123": true, "1234": true, "12345": false, "123456": false} {
		for kind, fsys := range map[string]fs.FS{
			"plain": fstest.MapFS{"file": {Data: []byte(text)}}, "growing": &growing{*strings.NewReader(text)},
		} {
			data, err := readLimited(fsys, "file", 4)
			if (err == nil) != ok || ok && string(data) != text {
				t.Errorf("%s %q: %q, %v", kind, text, data, err)
			}
		}
	}
}

func TestMetadataVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version": "v1.22.15"}`: "v1.22.15", "version: v1.2.3\n": "v1.2.3", "{": "", "[]": "", "": "",
		"a: " + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "\nversion: v1.2.3":     "v1.2.3",
		"a: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + "\nversion: v1.2.3": "",
	} {
		if got := MetadataVersion(fstest.MapFS{"Metadata": {Data: []byte(text)}}); got != want {
			t.Errorf("%.40q: %q, not %q", text, got, want)
		}
	}
	if got := MetadataVersion(fstest.MapFS{}); got != "" {
		t.Errorf("without a file: %q", got)
	}
}

func TestTelling(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a/Chart.yaml": true, "a/kustomization.yaml": true, "a.service": true, "etc/containerd/config.toml": true, "etc/default/kubelet": true,
		"etc/sysconfig/kubelet": true, "etc/kubelet": false, "etc/default/docker": false, "kubeadm.yml": true, "kubeadm-config.yaml.tmpl": true,
		"app.yml": false, "kube.env": true, "app.env": false, "etc/crio/crio.conf": true, "etc/nginx.conf": false,
		"etc/systemd/system/kubelet.service.d/10-kubeadm.conf": true, "values.yaml": false, "README.md": false,
	} {
		if got := Telling(name); got != want {
			t.Errorf("Telling(%q) = %t", name, got)
		}
	}
}

func TestHoldsAPIVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"apiVersion": true, "a apiVersion: b": true, "VersionapiVersion": true, "Version": false, "apiversion": false, "": false, "iVersion": false} {
		if got := holdsAPIVersion([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestCounts tells how many files and documents a scan read.
func TestCounts(t *testing.T) {
	t.Parallel()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{image: quay.io/a/b:1}]}\n"
	res, err := Scan(t.Context(), fstest.MapFS{
		"manifests/a.yaml":    {Data: []byte(pod + "---\n" + pod)},
		"manifests/b.service": {Data: []byte("[Service]\nExecStart=/bin/true\n")},
		"manifests/deep.yaml": {Data: []byte("a: b\n---\n\n\nc: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + "\n")},
	}, Options{})
	if res.Files != 3 || res.Documents != 4 {
		t.Errorf("%d files, %d documents", res.Files, res.Documents)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "manifests/deep.yaml:5: ") {
		t.Errorf("the error of a document that is too deep: %v", err)
	}
}

// TestCarriesAll tells whether a chart has what it depends on.
func TestCarriesAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"name: a\n": true, "dependencies: [{name: b}]": true, "dependencies: [{name: b}, {name: c}]": false, "dependencies: [{name: ../../x}]": false, "a: [": false,
	} {
		fsys := fstest.MapFS{"a/Chart.yaml": {Data: []byte(text)}, "a/charts/b/Chart.yaml": {Data: []byte("name: b\n")}}
		if got := carriesAll(fsys, "a/Chart.yaml"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if carriesAll(fstest.MapFS{}, "a/Chart.yaml") {
		t.Error("a chart that cannot be read carries nothing")
	}
}

// TestSkim loads only those charts of the rootfs that need it, and notes the
// API versions that the others bring.
func TestSkim(t *testing.T) {
	t.Parallel()
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: g.io, names: {kind: K}, versions: [{name: v1}]}\n"
	for name, tc := range map[string]struct {
		files  string
		want   bool
		served bool
	}{
		"a plain chart":                 {"Chart.yaml templates/a.yaml values.yaml", true, false},
		"definitions":                   {"Chart.yaml crds/a.yaml", true, true},
		"definitions further down":      {"Chart.yaml crds/b/a.yaml", true, true},
		"definitions under another dir": {"Chart.yaml other/a.yaml", true, false},
		"an archive":                    {"Chart.yaml charts/b.tgz", false, false},
		"an archive among its files":    {"Chart.yaml files/b.tgz templates/c.tgz", true, false},
		"requirements":                  {"Chart.yaml requirements.yaml", false, false},
	} {
		fsys := fstest.MapFS{}
		for _, f := range strings.Fields(tc.files) {
			fsys["charts/x/"+f] = &fstest.MapFile{Data: []byte(crd)}
		}
		fsys["charts/x/Chart.yaml"] = &fstest.MapFile{Data: []byte("name: x\n")}
		s := newScanner(t.Context(), Options{})
		s.fsys = fsys
		if got := s.skim(fsys, "charts/x"); got != tc.want || s.apis["g.io/v1"] != tc.served {
			t.Errorf("%s: skimmed %t, its API known %t", name, got, s.apis["g.io/v1"])
		}
	}
}

// TestChartNames tells the names that --set and values may give a chart, and what
// a name that is none says.
func TestChartNames(t *testing.T) {
	t.Parallel()
	if got := chartNames("a", "a"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
	if got := chartNames("a", "b"); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("%v", got)
	}
	for want, e := range map[string]*NoChartError{
		"no chart of that name: there is none here": {}, "no chart of that name: here are a, b": {Known: []string{"a", "b"}},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
