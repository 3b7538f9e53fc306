package main

import (
	"flag"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/sign"
)

// cosign NAME IMAGE KEYFILE [-name IDENTITY] [-digest D] [-children] [-referrer]
// signs an image of the upstream as cosign sign --key does: under its tag, or with
// -referrer as an artifact that names the image as its subject. The signature names
// IDENTITY and D instead of the image's repository and digest. With -children the
// manifests of the index are signed, not the index.
func cosign(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: cosign NAME IMAGE KEYFILE [flags]")
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	if up == nil {
		ts.Fatalf("cosign: no upstream %s", args[0])
	}
	flags := flag.NewFlagSet("cosign", flag.ContinueOnError)
	name := flags.String("name", "docker.io/library/"+args[1], "")
	other := flags.String("digest", "", "")
	children := flags.Bool("children", false, "")
	referrer := flags.Bool("referrer", false, "")
	ts.Check(flags.Parse(args[3:]))
	key, err := sign.LoadSigner(ts.MkAbs(args[2]), nil)
	ts.Check(err)
	content := up.Content(args[1])
	on := []digest.Digest{content.Root.Digest}
	if *children {
		on = nil
		for _, m := range content.Manifests {
			on = append(on, m.Digest)
		}
	}
	kind := ".sig"
	if *referrer {
		kind = sign.ArtifactType
	}
	for _, d := range on {
		of := d
		if *other != "" {
			of = digest.Digest(*other)
		}
		s, err := key.Sign(*name, of)
		ts.Check(err)
		_, _, err = up.Attach(args[1], d, registrytest.Artifact{
			Kind: kind, Content: string(s.Payload), Annotations: map[string]string{sign.Annotation: s.Signature},
		})
		ts.Check(err)
	}
}
