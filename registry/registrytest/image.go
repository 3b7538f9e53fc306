package registrytest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
)

// The media types of Docker's image format, "Image Manifest Version 2,
// Schema 2" in the documentation of distribution.
const (
	DockerManifest = platform.MediaTypeDockerManifest
	DockerList     = platform.MediaTypeDockerList
	DockerConfig   = platform.MediaTypeDockerConfig
	DockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

const defaultLayerSize = 4 << 10

// An Image describes a container image. Equal descriptions make equal bytes.
type Image struct {
	// Name is a reference with a tag: "library/nginx:latest" is
	// docker.io/library/nginx:latest.
	Name string
	// Platforms, each "os/arch[/variant]"; none means linux/amd64. One
	// platform makes a single manifest, several an index.
	Platforms []string
	// Index makes an index even for one platform.
	Index bool
	// Docker selects Docker's media types (schema 2, manifest list) instead
	// of OCI's.
	Docker bool
	// Attestation adds an entry for the platform unknown/unknown to the
	// index, as BuildKit does for provenance.
	Attestation bool
	// Layers, lowest first; none means one layer named as the image.
	Layers []Layer
	// Annotations are those of the manifests. Config is the config's part for
	// running the image; the zero value is that of a container image.
	Annotations map[string]string
	Config      *ocispec.ImageConfig
	// Revision changes the config, and so every digest above it: the same name,
	// published again.
	Revision int
}

// A Layer is a layer of an Image, by name: layers of equal Name, Size and
// platform have the same bytes in every image.
type Layer struct {
	Name string
	Size int // bytes, about; 0 means 4 KiB. The bytes do not compress.
	// Files, by path, and Links, symbolic links from path to target, are the
	// layer's whole content if one of them is set.
	Files map[string]string
	Links map[string]string
	// Shared layers are the same on every platform.
	Shared bool
}

// Layers returns a layer of the default size for each name.
func Layers(names ...string) []Layer {
	var out []Layer
	for _, n := range names {
		out = append(out, Layer{Name: n})
	}
	return out
}

// Content is a published image.
type Content struct {
	Root      ocispec.Descriptor   // of the index, or of the only manifest
	Manifests []ocispec.Descriptor // of an index, its entries in order; else Root alone
	// Blobs holds every blob by digest: index, manifests, configs, layers.
	Blobs map[digest.Digest][]byte
	order []ocispec.Descriptor // configs and layers, then manifests, then the index
}

// Size returns the bytes of all blobs.
func (c *Content) Size() int64 {
	var n int64
	for _, b := range c.Blobs {
		n += int64(len(b))
	}
	return n
}

// Build makes the bytes of img. It fails only on a platform that does not
// parse.
func Build(img Image) (*Content, error) {
	c := &Content{Blobs: map[digest.Digest][]byte{}}
	platforms, err := img.platforms()
	if err != nil {
		return nil, err
	}
	for _, p := range platforms {
		c.manifest(img, p)
	}
	if len(platforms) == 1 && !img.Index && !img.Attestation {
		c.Root = c.Manifests[0]
		c.Root.Platform = nil
		return c, nil
	}
	if img.Attestation {
		c.attestation(img)
	}
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: pick(img.Docker, DockerList, ocispec.MediaTypeImageIndex),
		Manifests: c.Manifests,
	}
	c.Root = c.add(index.MediaType, encode(index))
	return c, nil
}

func (img *Image) platforms() ([]ocispec.Platform, error) {
	var out []ocispec.Platform
	for _, name := range img.Platforms {
		p, err := platform.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Name, err)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		out = []ocispec.Platform{{OS: "linux", Architecture: "amd64"}}
	}
	return out, nil
}

func (c *Content) manifest(img Image, p ocispec.Platform) {
	config := ocispec.Image{
		Created:  epoch(),
		Platform: p,
		Config: ocispec.ImageConfig{
			Env: []string{"PATH=/usr/bin:/bin"},
			Cmd: []string{"/bin/" + img.Name},
		},
		RootFS: ocispec.RootFS{Type: "layers"},
	}
	if img.Config != nil {
		config.Config = *img.Config
	}
	if img.Revision != 0 {
		config.Config.Labels = map[string]string{"revision": fmt.Sprint(img.Revision)}
	}
	layers := img.Layers
	if len(layers) == 0 {
		layers = Layers(img.Name)
	}
	var descs []ocispec.Descriptor
	for _, l := range layers {
		where := platform.String(p)
		if l.Shared {
			where = "any"
		}
		plain, zipped := layerBytes(l, where)
		descs = append(descs, c.add(pick(img.Docker, DockerLayer, ocispec.MediaTypeImageLayerGzip), zipped))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(plain))
		config.History = append(config.History, ocispec.History{Created: epoch(), CreatedBy: "layer " + l.Name})
	}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: pick(img.Docker, DockerManifest, ocispec.MediaTypeImageManifest),
		Config:    c.add(pick(img.Docker, DockerConfig, ocispec.MediaTypeImageConfig), encode(config)),
		Layers:    descs,

		Annotations: img.Annotations,
	}
	d := c.add(m.MediaType, encode(m))
	d.Platform = &p
	c.Manifests = append(c.Manifests, d)
}

// attestation adds the manifest that BuildKit pushes beside an image: for the
// platform unknown/unknown, with one in-toto statement.
func (c *Content) attestation(img Image) {
	subject := c.Manifests[0].Digest
	statement := encode(map[string]any{
		"_type":         "https://in-toto.io/Statement/v0.1",
		"predicateType": "https://slsa.dev/provenance/v0.2",
		"subject":       []any{map[string]any{"name": img.Name, "digest": map[string]string{"sha256": subject.Encoded()}}},
	})
	layer := c.add("application/vnd.in-toto+json", statement)
	unknown := ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	config := ocispec.Image{Platform: unknown, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}}}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    c.add(ocispec.MediaTypeImageConfig, encode(config)),
		Layers:    []ocispec.Descriptor{layer},
	}
	d := c.add(m.MediaType, encode(m))
	d.Platform = &unknown
	d.Annotations = map[string]string{
		"vnd.docker.reference.digest": subject.String(),
		"vnd.docker.reference.type":   "attestation-manifest",
	}
	c.Manifests = append(c.Manifests, d)
}

func (c *Content) add(mediaType string, b []byte) ocispec.Descriptor {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	if _, ok := c.Blobs[d.Digest]; !ok {
		c.Blobs[d.Digest] = b
		c.order = append(c.order, d)
	}
	return d
}

// layerBytes returns a tar of a few files and its gzip. The bulk is one file of
// noise, seeded by the layer's name.
func layerBytes(l Layer, where string) (plain, zipped []byte) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", l.Name, where)
	bulk := make([]byte, cmp.Or(l.Size, defaultLayerSize))
	_, err := rand.NewChaCha8(sha256.Sum256(h.Sum(nil))).Read(bulk)
	must(err)
	dir := "usr/share/" + fmt.Sprintf("%016x", h.Sum64())
	type file struct {
		name string
		mode int64
		data []byte
	}
	files := []file{
		{"etc/layers/" + fmt.Sprintf("%016x", h.Sum64()), 0o644, []byte(l.Name + " for " + where + "\n")},
		{dir + "/run", 0o755, []byte("#!/bin/sh\necho " + l.Name + "\n")},
		{dir + "/noise", 0o644, bulk},
	}
	if l.Files != nil {
		files = nil
		for _, name := range slices.Sorted(maps.Keys(l.Files)) {
			files = append(files, file{name, 0o755, []byte(l.Files[name])})
		}
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		hdr := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: *epoch(), Format: tar.FormatUSTAR}
		must(w.WriteHeader(hdr))
		_, err := w.Write(f.data)
		must(err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Links)) {
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: l.Links[name], Mode: 0o777, ModTime: *epoch(), Format: tar.FormatPAX}))
	}
	must(w.Close())
	var z bytes.Buffer
	gz, err := gzip.NewWriterLevel(&z, gzip.BestSpeed)
	must(err)
	_, err = gz.Write(buf.Bytes())
	must(err)
	must(gz.Close())
	return buf.Bytes(), z.Bytes()
}

func epoch() *time.Time {
	t := time.Unix(0, 0).UTC()
	return &t
}

func pick(docker bool, a, b string) string {
	if docker {
		return a
	}
	return b
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	must(err)
	return b
}

// must panics on an error that cannot happen: a write to memory, or encoding a
// value of our own.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
