package image_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
)

// TestFromPlain translates images as sealer 0.9, and a Dockerfile, make them.
func TestFromPlain(t *testing.T) {
	t.Parallel()
	ids := []digest.Digest{digest.FromString("1"), digest.FromString("2"), digest.FromString("3")}
	c := &ocispec.Image{
		Author:   "joe",
		Platform: ocispec.Platform{OS: "linux", Architecture: "arm64"},
		RootFS:   ocispec.RootFS{DiffIDs: ids},
		History: []ocispec.History{
			{CreatedBy: "FROM base"}, {CreatedBy: "ENV a=b", EmptyLayer: true}, {CreatedBy: "COPY x ."}, {CreatedBy: "RUN y"}, {CreatedBy: "one more than there are"},
		},
		Config: ocispec.ImageConfig{Env: []string{"A=1=2", "B"}, Labels: map[string]string{"l": "1", "m": "1"}},
	}
	m := &ocispec.Manifest{Layers: make([]ocispec.Descriptor, 3), Annotations: map[string]string{
		image.AnnotationExtension:       `{"buildClient":{"sealerVersion":"0.9.1"},"type":"app-installer","labels":{"m":"2"},"env":{"B":"3"},"launch":{"app_names":["web"]}}`,
		image.AnnotationContainerImages: `[{"image":"nginx:1","appName":"web","platform":{"os":"linux","architecture":"arm64","variant":"v8"}},{"image":"redis:7"}]`,
	}}
	got, err := image.FromPlain(m, c)
	if err != nil {
		t.Fatal(err)
	}
	found := func(object string) []image.Provenance {
		return []image.Provenance{{Object: object, Rule: image.AnnotationContainerImages, Confidence: "certain"}}
	}
	want := image.Config{
		SealerVersion: "0.9.1", Type: "app-installer", Maintainer: "joe", Platform: got.Platform,
		Layers: []image.ConfigLayer{{ID: ids[0], Type: "FROM", Value: "FROM base"}, {ID: ids[1], Type: "FROM", Value: "COPY x ."}, {ID: ids[2], Type: "FROM", Value: "RUN y"}},
		Env:    map[string]string{"A": "1=2", "B": "3"}, Labels: map[string]string{"l": "1", "m": "2"},
		Launch:          &image.Launch{Apps: []string{"web"}},
		PrivateRegistry: image.PrivateRegistry{Name: "sea.hub:5000", Naming: tree.NamingPath},
		Images: []image.MirroredImage{
			{Reference: image.ParseName("nginx:1"), Platforms: []string{"linux/arm64"}, Found: found("application/web")},
			{Reference: image.ParseName("redis:7"), Found: found("")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Platform.OS != "linux" || got.Platform.Architecture != "arm64" {
		t.Errorf("platform %v", got.Platform)
	}
}

func TestPlainCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cmd        []string
		annotation string
		want       []string
		launch     *image.Launch
	}{
		"none":                {},
		"exec form":           {cmd: []string{"kubectl", "apply", "-f", "x"}, want: []string{"kubectl apply -f x"}},
		"shell form":          {cmd: []string{"/bin/sh", "-c", "kubectl apply -f x && y"}, want: []string{"kubectl apply -f x && y"}},
		"bash":                {cmd: []string{"bash", "-c", "x"}, want: []string{"x"}},
		"three words":         {cmd: []string{"sh", "-x", "y"}, want: []string{"sh -x y"}},
		"no shell":            {cmd: []string{"tool", "-c", "y"}, want: []string{"tool -c y"}},
		"four words":          {cmd: []string{"sh", "-c", "x", "y"}, want: []string{"sh -c x y"}},
		"a single word":       {cmd: []string{"sh"}, want: []string{"sh"}},
		"commands to launch":  {annotation: `{"launch":{"cmds":["a"]}}`, launch: &image.Launch{Cmds: []string{"a"}}},
		"both to launch":      {annotation: `{"launch":{"cmds":["a"],"app_names":["b"]}}`, launch: &image.Launch{Cmds: []string{"a"}, Apps: []string{"b"}}},
		"nothing to launch":   {annotation: `{"launch":{}}`},
		"an older annotation": {annotation: `{}`},
	} {
		m := &ocispec.Manifest{}
		if tc.annotation != "" {
			m.Annotations = map[string]string{image.AnnotationExtension: tc.annotation}
		}
		got, err := image.FromPlain(m, &ocispec.Image{Config: ocispec.ImageConfig{Cmd: tc.cmd}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got.Cmd.Current); diff != "" {
			t.Errorf("%s: commands (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.launch, got.Launch); diff != "" {
			t.Errorf("%s: launch (-want +got):\n%s", name, diff)
		}
		if got.Type != image.TypeKubeInstaller {
			t.Errorf("%s: type %s", name, got.Type)
		}
	}
}

func TestGap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gap    image.Gap
		blocks bool
		want   string
	}{
		{image.Gap{Grade: image.GapOpen, File: "a.yaml", Line: 1, Object: "Pod/x", Text: "{{ .x }}", Reason: "no value", More: 1}, true, "a.yaml:1: Pod/x: {{ .x }}: no value (and 1 more)"},
		{image.Gap{Grade: image.GapOpen, File: "a.yaml", Reason: "no value", Declared: "by hand"}, false, "a.yaml: no value (declared: by hand)"},
		{image.Gap{Grade: "doubtful", File: "a.yaml", Line: 12, Text: "x"}, false, "a.yaml:12: x"},
		{image.Gap{Grade: "doubtful", File: "a.yaml", Declared: "why"}, false, "a.yaml (declared: why)"},
	} {
		if got := tc.gap.String(); got != tc.want {
			t.Errorf("String = %q, want %q", got, tc.want)
		}
		if got := tc.gap.Blocks(); got != tc.blocks {
			t.Errorf("%s: Blocks = %t", tc.want, got)
		}
	}
	for missing, want := range map[string]bool{"": false, image.NotMirrored + "optional": false, "connection refused": true} {
		if got := (image.MirroredImage{Missing: missing}).Lacks(); got != want {
			t.Errorf("%q: Lacks = %t", missing, got)
		}
	}
}

func TestIsRegistry(t *testing.T) {
	t.Parallel()
	doc := &tree.Document{Blobs: []tree.Blob{{Digest: digest.FromString("a"), Size: 3}, {Digest: digest.FromString("b"), Size: 4}}}
	l := image.RegistryLayer(ocispec.Descriptor{MediaType: tree.MediaTypeDocument, Digest: digest.FromString("doc")}, doc)
	if !l.IsRegistry() || l.Size != 7 || len(l.Descriptors) != 3 || l.ID != digest.FromString("doc") {
		t.Errorf("%+v", l)
	}
	for name, l := range map[string]image.Layer{
		"nothing": {},
		"rootfs":  {Descriptors: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerZstd}}},
		"a blob":  {Descriptors: l.Descriptors[1:]},
	} {
		if l.IsRegistry() {
			t.Errorf("%s is a registry layer", name)
		}
	}
}
