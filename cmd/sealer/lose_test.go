package main

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"
)

// lose NAME REPOSITORY TAG manifest|layer N deletes, by the registry's own API, what
// stands at place N in an index, or among the layers of an image: as cleaners of
// untagged manifests do.
func loseContent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: lose NAME REPOSITORY TAG manifest|layer N")
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	if up == nil {
		ts.Fatalf("lose: no upstream %s", args[0])
	}
	n, err := strconv.Atoi(args[4])
	ts.Check(err)
	base := "http://" + up.Host() + "/v2/" + args[1]
	ask := func(method, path string, want int, into any) {
		req, err := http.NewRequest(method, base+path, nil)
		ts.Check(err)
		req.Header["Accept"] = []string{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest}
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		defer resp.Body.Close()
		if resp.StatusCode != want {
			ts.Fatalf("lose: %s %s: %s", method, path, resp.Status)
		}
		if into != nil {
			ts.Check(json.NewDecoder(resp.Body).Decode(into))
		}
	}
	var top struct {
		Manifests, Layers []struct{ Digest digest.Digest }
	}
	ask(http.MethodGet, "/manifests/"+args[2], http.StatusOK, &top)
	path := "/manifests/"
	list := top.Manifests
	if args[3] == "layer" {
		path, list = "/blobs/", top.Layers
	}
	if n >= len(list) {
		ts.Fatalf("lose: %s has %d of these", args[2], len(list))
	}
	ask(http.MethodDelete, path+list[n].Digest.String(), http.StatusAccepted, nil)
}
