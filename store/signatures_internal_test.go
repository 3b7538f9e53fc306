package store

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/sign"
)

func signature(payload, by string) sign.Signature {
	return sign.Signature{Payload: []byte(payload), Signature: by}
}

// An image has each signature once, in the order in which they came, and no more
// bytes of them than the index may take.
func TestAddSignatures(t *testing.T) {
	t.Parallel()
	d := ocispec.Descriptor{Digest: digest.FromString("a")}
	add := func(want string, list ...sign.Signature) {
		t.Helper()
		if err := addSignatures(&d, list); err != nil {
			t.Fatal(err)
		}
		have, err := signaturesIn(d)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range have {
			got = append(got, string(s.Payload)+s.Signature)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	add("")
	if d.Annotations != nil {
		t.Errorf("no signature made annotations: %v", d.Annotations)
	}
	add("1a 1b", signature("1", "a"), signature("1", "b"))
	add("1a 1b 2a", signature("1", "a"), signature("2", "a"), signature("2", "a"))
	add("1a 1b 2a", signature(strings.Repeat("x", maxSignatures), "long"))
	d.Annotations["other"] = "kept"
	add("1a 1b 2a 3c", signature("3", "c"))
	if d.Annotations["other"] != "kept" {
		t.Error("another annotation is gone")
	}
	d.Annotations[annotationSignatures] = "no list"
	if _, err := signaturesIn(d); !errors.Is(err, ErrInvalid) {
		t.Errorf("no list: %v", err)
	}
	add("4d", signature("4", "d"))
	for n, good := range map[int]bool{maxSignatures: true, maxSignatures + 1: false} {
		d.Annotations[annotationSignatures] = "[" + strings.Repeat(" ", n-2) + "]"
		if _, err := signaturesIn(d); (err == nil) != good || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Signatures are kept of an image that is here, under all its names, and go with an
// archive of the whole image.
func TestSignaturesOfAnImage(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	index := func() os.FileInfo {
		t.Helper()
		return s.IndexInfo()
	}
	before := index()
	d, list, err := s.Signatures("app")
	if err != nil || len(list) != 0 || d.Digest == "" {
		t.Errorf("before: %+v, %v, %v", d, list, err)
	}
	if err := s.AddSignatures(t.Context(), d.Digest, nil); err != nil || !os.SameFile(before, index()) {
		t.Errorf("no signatures: %v, or the index was written", err)
	}
	if err := s.AddSignatures(t.Context(), digest.FromString("other"), []sign.Signature{signature("1", "a")}); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an image that is not here: %v", err)
	}
	if err := s.AddSignatures(t.Context(), d.Digest, []sign.Signature{signature("1", "a")}); err != nil {
		t.Fatal(err)
	}
	if _, list, err = s.Signatures("app"); err != nil || len(list) != 1 || list[0].Signature != "a" {
		t.Errorf("after: %v, %v", list, err)
	}
	if _, _, err := s.Signatures("none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no image: %v", err)
	}
	saved, err := s.Save(t.Context(), io.Discard, []string{"app"}, SaveOptions{})
	if err != nil || len(saved.Unsigned) != 0 {
		t.Errorf("save: %+v, %v", saved, err)
	}
}

// Of an image for two platforms one is saved without the signatures, which are of
// the whole, and that is told; an image that has none is not told of.
func TestSaveOfOnePlatformIsUnsigned(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	img := builtImage(t, s)
	one := img.ManifestDescriptor
	one.Platform = &img.Config.Platform
	idx, err := s.WriteIndex(t.Context(), []ocispec.Descriptor{one}, nil)
	if err == nil {
		err = s.Commit(t.Context(), nil, idx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, signed := range []bool{false, true} {
		if signed {
			if err := s.AddSignatures(t.Context(), idx.Digest, []sign.Signature{signature("1", "a")}); err != nil {
				t.Fatal(err)
			}
		}
		for name, o := range map[string]SaveOptions{"all": {}, "one": {Platforms: []ocispec.Platform{img.Config.Platform}}} {
			saved, err := s.Save(t.Context(), io.Discard, []string{idx.Digest.Encoded()}, o)
			if want := signed && name == "one"; err != nil || (len(saved.Unsigned) == 1) != want {
				t.Errorf("signed %v, %s: %+v, %v", signed, name, saved, err)
			}
		}
	}
}
