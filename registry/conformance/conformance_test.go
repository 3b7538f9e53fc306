package conformance_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

const suite = "github.com/opencontainers/distribution-spec/conformance"

func TestPull(t *testing.T) {
	image := registrytest.Image{Name: "docker.io/team/app:v1", Layers: registrytest.Layers("base", "app")}
	layer, err := registrytest.WriteLayer(t.TempDir(), tree.NamingPath, []registrytest.Image{image})
	if err != nil {
		t.Fatal(err)
	}
	content := layer.Content(image.Name)
	var m ocispec.Manifest
	if err := json.Unmarshal(content.Blobs[content.Root.Digest], &m); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "conformance.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, suite).CombinedOutput(); err != nil {
		t.Fatalf("build the suite: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = dir // its reports go there
	cmd.Env = append(os.Environ(),
		"OCI_ROOT_URL="+serve(t, layer),
		"OCI_NAMESPACE=team/app",
		"OCI_TEST_PULL=1",
		"OCI_TAG_NAME=v1",
		"OCI_MANIFEST_DIGEST="+content.Root.Digest.String(),
		"OCI_BLOB_DIGEST="+m.Config.Digest.String(),
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	checkReport(t, filepath.Join(dir, "junit.xml"))
}

// checkReport makes sure that the pull part ran and was not skipped.
func checkReport(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Skipped *struct{} `xml:"skipped"`
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, c := range report.Cases {
		switch {
		case c.Failure != nil:
			t.Errorf("failed: %s", c.Name)
		case c.Skipped == nil:
			passed++
		}
	}
	const pull = 12 // the cases of the pull part that need no push
	if passed < pull {
		t.Errorf("%d cases passed, want %d", passed, pull)
	}
	t.Logf("%d cases passed", passed)
}

func serve(t *testing.T, layer *registrytest.DiskLayer) string {
	t.Helper()
	h, err := registry.NewHandler(t.Context(), registry.Dirs(layer.Dir), registry.Options{Documents: []*tree.Document{layer.Document}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := registry.Listen(h, registry.ServerOptions{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL()
}
