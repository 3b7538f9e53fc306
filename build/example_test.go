package build_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// A build reads a directory with a Kubefile and leaves a ClusterImage in a store.
// This one names no container image, so that it asks no registry.
func ExampleBuild() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"Kubefile": "FROM scratch\nCOPY app.yaml manifests\nCMD kubectl apply -f manifests/app.yaml\n",
		"app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	registries, err := remote.New(remote.Options{})
	if err != nil {
		log.Fatal(err)
	}
	name, err := ref.Parse("registry.example/team/app:v1")
	if err != nil {
		log.Fatal(err)
	}

	result, err := build.Build(ctx, s, registries, build.Options{Context: dir, Tags: []ref.Reference{name}})
	if err != nil {
		log.Fatal(err)
	}
	for _, im := range result.Images {
		fmt.Println(len(im.Config.Layers), "layer,", im.Config.Cmd.Current)
	}
	// Output: 1 layer, [kubectl apply -f manifests/app.yaml]
}
