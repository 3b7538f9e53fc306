package spec

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocs reads every example of docs/clusterfile.md, and finds every field of
// the documents in it.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/clusterfile.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 8 {
		t.Fatalf("%d examples", len(examples))
	}
	kinds := map[string]bool{}
	for _, e := range examples {
		f, err := Parse("example", []byte(e[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
		if f.Cluster.Name == "" {
			f = Merge(f, &File{Cluster: Cluster{Image: "i"}}, Defaults("10.0.0.1"))
		}
		if err := errors.Join(Validate(f), f.Unsupported()); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
		for _, m := range regexp.MustCompile(`(?m)^kind: (.*)$`).FindAllStringSubmatch(e[1], -1) {
			kinds[m[1]] = true
		}
	}
	for _, k := range slices.Concat(ownKinds(), KubeadmKinds()) {
		if !kinds[k] && k != "JoinConfiguration" && k != "KubeadmConfig" {
			t.Errorf("no example of kind %s", k)
		}
	}
	words := regexp.MustCompile(`[A-Za-z_]+`).FindAllString(string(text), -1)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Cluster](), reflect.TypeFor[Config](), reflect.TypeFor[Plugin](), reflect.TypeFor[Application](), reflect.TypeFor[Preflight](),
	} {
		checkFields(t, typ, words)
	}
}

// checkFields wants every field of a type, and of the types in it, among words.
func checkFields(t *testing.T, typ reflect.Type, words []string) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[Secret]() {
		return
	}
	for i, name := range names(typ) {
		if name == "" || strings.HasPrefix(name, "-") {
			continue
		}
		if !slices.Contains(words, name) {
			t.Errorf("docs/clusterfile.md lacks %s.%s", typ.Name(), name)
		}
		checkFields(t, typ.Field(i).Type, words)
	}
}
