package transfer_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// Pull a ClusterImage, check that it is complete, and serve the container images
// inside it.
func Example() {
	ctx := context.Background()
	s, err := store.Open("", store.Options{}) // the store of sealer's commands
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	registries, err := remote.New(remote.Options{}) // as registries.conf and the auth files say
	if err != nil {
		log.Fatal(err)
	}
	name, err := ref.Parse("registry.example/team/app:v1")
	if err != nil {
		log.Fatal(err)
	}

	if _, err := transfer.Pull(ctx, s, registries, name, remote.PullOptions{}); err != nil {
		log.Fatal(err)
	}
	v, err := transfer.Verify(ctx, s, name.String(), transfer.VerifyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if len(v.Faults)+len(v.Missing) > 0 {
		log.Fatalf("%d faults, %d images missing", len(v.Faults), len(v.Missing))
	}
	service, err := transfer.NewService(ctx, s, transfer.Selection{Names: []string{name.String()}}, registry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	fmt.Println("serving", service.Count(), "container images")
	log.Fatal(http.ListenAndServe("127.0.0.1:5000", service))
}
