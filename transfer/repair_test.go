package transfer_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

// The index of an image's referrers is made by a build, and no registry has it:
// repair makes it again.
func TestRepairMakesReferrersIndexAgain(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	doc := mirrored(t, s, 0, 1, 0)
	repo := &doc.Repositories[0]
	subject := repo.Revisions[0]
	var entries []ocispec.Descriptor
	add := func(mediaType string, b []byte) ocispec.Descriptor {
		d := put(t, s, mediaType, b)
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d.Digest, Size: d.Size})
		repo.Revisions = append(repo.Revisions, tree.Revision{Digest: d.Digest, MediaType: mediaType, Size: d.Size})
		return d
	}
	for _, of := range []digest.Digest{subject.Digest, subject.Digest, digest.FromString("another")} {
		m := ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/spdx+json",
			Config:      ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: repo.Layers[0], Size: 1},
			Subject:     &ocispec.Descriptor{MediaType: subject.MediaType, Digest: of, Size: subject.Size},
			Annotations: map[string]string{"n": string(rune('a' + len(repo.Revisions)))},
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		add(m.MediaType, b)
		if entry, err := mirror.ReferrerOf(subject.Digest, m.MediaType, b); err == nil {
			entries = append(entries, entry)
		}
	}
	_, b, err := mirror.ReferrersIndex(entries)
	if err != nil || len(entries) != 2 {
		t.Fatal(err, entries)
	}
	idx := add(ocispec.MediaTypeImageIndex, b)
	repo.Tags = append(repo.Tags, tree.Tag{Name: tree.AttachmentTag(subject.Digest), Digest: idx.Digest})
	commitDocument(t, s, nil, doc, "team/q:v1")
	c := newClient(t, registrytest.New(t, registrytest.Options{}))
	for name, harm := range map[string]func(path string) error{
		"gone":   os.Remove,
		"broken": func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) },
	} {
		path := s.BlobPath(idx.Digest)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := harm(path); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{0, 0} { // repaired, then nothing to repair
			got, err := transfer.Verify(t.Context(), s, "team/q:v1", transfer.VerifyOptions{Repair: c})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Broken()) != want || (i == 0) != (len(got.Faults) > 0) {
				t.Errorf("%s, %d: %v", name, i, got.Faults)
			}
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(b) {
			t.Errorf("%s: %q, %v", name, now, err)
		}
	}
}
