package image_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/registry/tree"
)

// docs/format.md names every field of the config and of the registry layer
// document, every media type and every annotation.
func TestFormatPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	want := []string{
		image.ArtifactType, image.MediaTypeConfig, image.MediaTypeSplitConfig, image.ArtifactTypeBlobs, tree.MediaTypeDocument, tree.MediaTypeBlob, inventory.MediaType,
		image.AnnotationLayerType, image.AnnotationLayerValue, image.RegistryLayerValue, image.AnnotationExtension,
		image.AnnotationContainerImages, image.TypeKubeInstaller, image.TypeAppInstaller, strings.TrimSpace(image.NotMirrored),
	}
	for _, v := range []any{image.Config{}, tree.Document{}} {
		want = append(want, fields(reflect.TypeOf(v), map[reflect.Type]bool{})...)
	}
	for _, w := range want {
		if !strings.Contains(page, "`"+w) && !strings.Contains(page, `"`+w+`"`) {
			t.Errorf("docs/format.md does not name %s", w)
		}
	}
}

// fields returns the JSON names of the fields of t and of its parts, where they
// are types of this module.
func fields(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || !strings.HasPrefix(t.PkgPath(), "github.com/clusterimage/sealer/") || t == reflect.TypeFor[image.Name]() {
		return nil
	}
	seen[t] = true
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
		out = append(out, fields(f.Type, seen)...)
	}
	return out
}
