package kyverno_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/redirect/kyverno"
	"github.com/clusterimage/sealer/redirect/redirecttest"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

var update = flag.Bool("update", false, "rewrite examples/kyverno")

var imageField = regexp.MustCompile(`(?:\bimage: *["']?|--image=)([^\s"',\]{]+)`)

// find is a stand-in for the discovery of package imagelist, which this package
// must not import: it knows image fields and --image arguments. The commands'
// own tests run the real one.
func find(manifest []byte) ([]kyverno.Found, error) {
	var found []kyverno.Found
	for i, line := range strings.Split(string(manifest), "\n") {
		if !strings.Contains(line, "image") || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range imageField.FindAllStringSubmatch(line, -1) {
			r, err := ref.Parse(m[1])
			if err != nil {
				return nil, err
			}
			found = append(found, kyverno.Found{Reference: r, Written: m[1], Line: i + 1})
		}
	}
	return found, nil
}

func standin(t *testing.T) kyverno.Context {
	t.Helper()
	b, err := os.ReadFile("testdata/install-standin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return kyverno.Context{Manifest: b, ManifestName: "install-standin.yaml", Find: find}
}

// TestExample keeps examples/kyverno what the generator writes; -update does it.
func TestExample(t *testing.T) {
	t.Parallel()
	const dir = "../../examples/kyverno"
	files, err := standin(t).Files()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if _, err := redirect.Write(dir, files, true); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	for _, f := range files {
		want[f.Path] = string(f.Content)
	}
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		got[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run go test ./redirect/kyverno -run TestExample -update:\n%s", diff)
	}
	const kubefile = `FROM kubernetes-rawdocker:v1.19.8
COPY imageList manifests
COPY etc .
COPY scripts .
CMD kubectl create -f etc/install.yaml && kubectl create -f etc/redirect-registry.yaml
CMD bash scripts/wait-kyverno-ready.sh
`
	if got["Kubefile"] != kubefile {
		t.Errorf("the Kubefile is not that of the BaseImage:\n%s", got["Kubefile"])
	}
}

func content(files []redirect.File, path string) string {
	for _, f := range files {
		if f.Path == path {
			return string(f.Content)
		}
	}
	return ""
}

func TestContextIsByteEqualButForImages(t *testing.T) {
	t.Parallel()
	c := standin(t)
	c.Manifest = append(c.Manifest, `---
apiVersion: v1
kind: Pod
metadata:
  name: "x" # no image here
spec:
  containers:
  - {name: a, image: 'docker.io/kyverno/kyverno-cli:latest', args: [--image=quay.io/a/b:1, "quay.io/a/b:12"]}
  - name: b
    image: sea.hub:5000/kept/as:it-is
`...)
	c.Known = []ref.Reference{parse(t, "quay.io/kept/as:it-is")}
	c.Version = "v1.19.1"
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.NewBufferString("")
	want.WriteString(strings.NewReplacer(
		"ghcr.io/kyverno/", "sea.hub:5000/kyverno/",
		"docker.io/kyverno/kyverno-cli:latest", "sea.hub:5000/kyverno/kyverno-cli:v1.19.1",
		"quay.io/a/b:12", "quay.io/a/b:12",
		"quay.io/a/b:1", "sea.hub:5000/a/b:1",
	).Replace(string(c.Manifest)))
	if diff := cmp.Diff(want.String(), content(files, "etc/install.yaml")); diff != "" {
		t.Error(diff)
	}
	const list = "docker.io/kyverno/kyverno-cli:v1.19.1\nghcr.io/kyverno/kyverno:v1.19.1\nghcr.io/kyverno/kyvernopre:v1.19.1\nquay.io/a/b:1\nquay.io/kept/as:it-is\n"
	if diff := cmp.Diff(list, content(files, "imageList")); diff != "" {
		t.Error(diff)
	}
	// Its own output, with the list that belongs to it, is a fixed point.
	c.Manifest = []byte(content(files, "etc/install.yaml"))
	for _, line := range strings.Fields(list) {
		c.Known = append(c.Known, parse(t, line))
	}
	again, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, again); diff != "" {
		t.Error(diff)
	}
}

func TestContextOfRealManifests(t *testing.T) {
	t.Parallel()
	for version, images := range map[string]int{"v1.7.1": 2, "v1.13.6": 5, "v1.19.1": 5} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(redirecttest.Shared(t, "kyverno/install-"+version+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			c := kyverno.Context{Manifest: b, Find: find, Version: version, Redirect: redirect.Redirect{Naming: tree.NamingFull}}
			if version == "v1.19.1" {
				c.Redirect.Engine = redirect.MutatingPolicy // the others do not know it
			}
			files, err := c.Files()
			if err != nil {
				t.Fatal(err)
			}
			list := content(files, "imageList")
			if strings.Count(list, "\n") != images || strings.Count(list, ":"+version+"\n") != images {
				t.Errorf("imageList, want %d images:\n%s", images, list)
			}
			back := strings.NewReplacer("sea.hub:5000/ghcr.io/", "ghcr.io/", "sea.hub:5000/reg.kyverno.io/", "reg.kyverno.io/").Replace(content(files, "etc/install.yaml"))
			if strings.ReplaceAll(back, ":"+version+`"`, `:latest"`) != strings.ReplaceAll(string(b), ":"+version+`"`, `:latest"`) {
				t.Error("more than the images changed")
			}
		})
	}
}

func TestContextOfAdmissionPolicy(t *testing.T) {
	t.Parallel()
	files, err := kyverno.Context{Redirect: redirect.Redirect{Engine: redirect.AdmissionPolicy}, From: "base:1"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	const kubefile = "FROM base:1\nCOPY etc .\nCOPY scripts .\nCMD kubectl create -f etc/redirect-registry.yaml\nCMD bash scripts/wait-redirect-ready.sh\n"
	if diff := cmp.Diff(kubefile, content(files, "Kubefile")); diff != "" || len(files) != 3 {
		t.Errorf("%d files\n%s", len(files), diff)
	}
}

func TestContextRejects(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: %s\n"
	for want, edit := range map[string]func(c *kyverno.Context){
		"it is empty":          func(c *kyverno.Context) { c.Manifest = []byte("# nothing\n") },
		"is not YAML":          func(c *kyverno.Context) { c.Manifest = []byte("a: b: c\n\t") },
		"no Kubernetes object": func(c *kyverno.Context) { c.Manifest = []byte("<html>404</html>\n") },
		"the document at line 4 is no Kubernetes": func(c *kyverno.Context) { c.Manifest = []byte("apiVersion: v1\nkind: X\n---\n- a\n") },
		"the document at line 2 is no Kubernetes": func(c *kyverno.Context) { c.Manifest = []byte("---\n- a\n---") },
		"it names no image":                       func(c *kyverno.Context) { c.Manifest = []byte("apiVersion: v1\nkind: Namespace\n") },
		"does not install Kyverno: its first image is docker.io/library/nginx:1": func(c *kyverno.Context) {
			c.Manifest = []byte(strings.ReplaceAll(pod, "%s", "nginx:1"))
		},
		"more than the": func(c *kyverno.Context) { c.Manifest = make([]byte, kyverno.MaxManifest+1) },
		"start from the original": func(c *kyverno.Context) {
			c.Manifest = bytes.ReplaceAll(c.Manifest, []byte("ghcr.io/"), []byte("sea.hub:5000/"))
		},
		"both become sea.hub:5000/kyverno/kyverno:v1.19.1": func(c *kyverno.Context) {
			c.Manifest = append(c.Manifest, "---\n"+strings.ReplaceAll(pod, "%s", "quay.io/kyverno/kyverno:v1.19.1")...)
		},
		"ghcr.io has no prefix": func(c *kyverno.Context) {
			c.Redirect.Prefixes = []redirect.Prefix{{Registry: "docker.io", Path: "hub"}}
		},
		"belong on the nodes": func(c *kyverno.Context) { c.Redirect.Engine = redirect.Containerd },
		"want host[:port]":    func(c *kyverno.Context) { c.Redirect.PrivateRegistry = "http://sea.hub" },
		"no mutatingpolicies.policies.kyverno.io of version v1: use another version, or --engine clusterpolicy": func(c *kyverno.Context) {
			c.Redirect.Engine = redirect.MutatingPolicy
			c.Manifest = append([]byte(crd("clusterpolicies.kyverno.io", "v1")+crd("mutatingpolicies.policies.kyverno.io", "v1beta1")), c.Manifest...)
		},
		"no clusterpolicies.kyverno.io of version v1": func(c *kyverno.Context) {
			c.Manifest = append([]byte(crd("mutatingpolicies.policies.kyverno.io", "v1")), c.Manifest...)
		},
		"redirects all images": func(c *kyverno.Context) { c.Redirect.Exact = true },
		"not written there":    func(c *kyverno.Context) { c.Find = func([]byte) ([]kyverno.Found, error) { return lostImage(t), nil } },
		"the finder's own error": func(c *kyverno.Context) {
			c.Find = func([]byte) ([]kyverno.Found, error) { return nil, errors.New("the finder's own error") }
		},
	} {
		c := standin(t)
		edit(&c)
		if _, err := c.Files(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Files = %v, want %q", err, want)
		}
	}
}

func crd(name, version string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\nspec:\n  versions:\n  - {name: " + version + ", served: true}\n---\n"
}

// lostImage is an image that its line does not hold in one piece.
func lostImage(t *testing.T) []kyverno.Found {
	r := parse(t, "ghcr.io/kyverno/kyverno:v1.19.1")
	return []kyverno.Found{{Reference: r, Written: "ghcr.io/kyverno/kyverno", Line: 20}}
}

func parse(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
