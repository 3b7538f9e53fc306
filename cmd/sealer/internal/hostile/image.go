package hostile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The media types of an image, as docs say them: the package imports none of
// sealer's, so that a wrong constant there shows.
const (
	mediaConfig   = "application/vnd.sealer.clusterimage.config.v1+json"
	artifactType  = "application/vnd.sealer.clusterimage.v1"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTar      = "application/vnd.oci.image.layer.v1.tar"
	mediaDocument = "application/vnd.sealer.registry.layer.v1+json"
	mediaBlob     = "application/vnd.sealer.registry.blob.v1"
)

// A Doc is a JSON object.
type Doc map[string]any

// A Layer is one layer of an Image. What is "" or nil is as it should be for Blob.
type Layer struct {
	Blob      []byte
	MediaType string // "" is an uncompressed tar
	ID        string // in the config
	Digest    string // in the manifest
	Size      any    // in the config
	Type      string // in the config; "" is COPY
	Value     string
	Mirrored  [][]byte // blobs after a registry layer's document
}

// Document returns a registry layer with the document doc, which may be []byte.
func Document(doc any, mirrored ...[]byte) Layer {
	b, ok := doc.([]byte)
	if !ok {
		b = encode(doc)
	}
	return Layer{Blob: b, MediaType: mediaDocument, Type: "BASE", Value: "registry cache", Mirrored: mirrored}
}

// An Image is a ClusterImage in an OCI image layout. Config, Manifest and Index
// replace fields of those documents.
type Image struct {
	Name                    string
	Layers                  []Layer
	Config, Manifest, Index Doc
}

// Blobs are contents by their digests.
type Blobs map[string][]byte

func (b Blobs) put(content []byte) (digest string, size int) {
	digest = Digest(content)
	b[digest] = content
	return digest, len(content)
}

// Digest returns the SHA-256 digest of b.
func Digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// Parts returns the index of the image, its manifest, and all its blobs.
func (im Image) Parts() (index, manifest []byte, blobs Blobs) {
	blobs = Blobs{}
	layers, inConfig := []Doc{}, []Doc{}
	for _, l := range im.Layers {
		digest, size := blobs.put(l.Blob)
		layers = append(layers, Doc{"mediaType": or(l.MediaType, mediaTar), "digest": or(l.Digest, digest), "size": size})
		for _, m := range l.Mirrored {
			digest, size := blobs.put(m)
			layers = append(layers, Doc{"mediaType": mediaBlob, "digest": digest, "size": size})
		}
		var unpacked any = 0
		if l.Size != nil {
			unpacked = l.Size
		}
		inConfig = append(inConfig, Doc{"id": or(l.ID, digest), "type": or(l.Type, "COPY"), "value": or(l.Value, "x"), "size": unpacked})
	}
	config := Doc{
		"sealerVersion": "0.1.0", "type": "app-installer", "platform": Doc{"os": "linux", "architecture": "amd64"},
		"layers": inConfig, "cmd": Doc{}, "args": Doc{}, "registry": Doc{"name": "sea.hub:5000", "naming": "path"},
	}
	maps.Copy(config, im.Config)
	digest, size := blobs.put(encode(config))
	m := Doc{
		"schemaVersion": 2, "mediaType": mediaManifest, "artifactType": artifactType,
		"config": Doc{"mediaType": mediaConfig, "digest": digest, "size": size}, "layers": layers,
	}
	maps.Copy(m, im.Manifest)
	manifest = encode(m)
	digest, size = blobs.put(manifest)
	i := Doc{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []Doc{{
		"mediaType": mediaManifest, "digest": digest, "size": size,
		"annotations": Doc{"org.opencontainers.image.ref.name": im.Name},
	}}}
	maps.Copy(i, im.Index)
	return encode(i), manifest, blobs
}

// Archive returns the image as an archive for sealer load.
func (im Image) Archive() []byte {
	index, _, blobs := im.Parts()
	entries := []Entry{File("oci-layout", `{"imageLayoutVersion":"1.0.0"}`), File("index.json", string(index))}
	for _, d := range slices.Sorted(maps.Keys(blobs)) {
		entries = append(entries, File("blobs/sha256/"+d[len("sha256:"):], string(blobs[d])))
	}
	return Tar(entries...)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	must(err)
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
