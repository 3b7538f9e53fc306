package hostile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// stored is a container image's manifest as a registry layer holds it. Its config
// is not there, which sealer verify leaves to images that were asked for.
const stored = `{"schemaVersion":2,"mediaType":"` + mediaManifest + `","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":2},"layers":[]}`

// A repository is the content of a registry layer document with one repository.
type repository struct {
	name, tag, digest string
	blobs             []Doc
}

// document encodes r in the order of the keys that sealer writes.
func (r repository) document() []byte {
	if r.blobs == nil {
		r.blobs = []Doc{{"digest": Digest([]byte(stored)), "size": len(stored)}}
	}
	type tag struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
	}
	type revision struct {
		Digest    string `json:"digest"`
		MediaType string `json:"mediaType"`
		Size      int    `json:"size"`
	}
	type repo struct {
		Name      string     `json:"name"`
		Tags      []tag      `json:"tags"`
		Revisions []revision `json:"revisions"`
	}
	return encode(struct {
		Version      int    `json:"schemaVersion"`
		Repositories []repo `json:"repositories"`
		Blobs        []Doc  `json:"blobs"`
	}{1, []repo{{r.name, []tag{{r.tag, r.digest}}, []revision{{r.digest, mediaManifest, len(stored)}}}}, r.blobs})
}

// documents returns images whose registry layer document or config lies.
func documents() []Case {
	return slices.Concat(documentNames(), documentForms(), configs())
}

func documentNames() []Case {
	sound := Digest([]byte(stored))
	var out []Case
	add := func(name, text string, r repository) {
		out = append(out, loads("registry layer document", name, func(Places) []byte {
			return Image{Name: loaded, Layers: []Layer{Document(r.document(), []byte(stored))}}.Archive()
		}, text))
	}
	add("sound, but for a manifest whose config is missing", "", repository{name: "library/nginx", tag: "latest", digest: sound})
	for _, name := range []string{"../../../etc", "a/../../b", "/abs", "A/UPPER", "a//b", "a/_manifests/tags", "_layers", "a\x00b", strings.Repeat("x", 256), ".", "..", ""} {
		add("repository "+short(name), "repository name", repository{name: name, tag: "latest", digest: sound})
	}
	for _, tag := range []string{"../../x", "a/b", "", ".", "..", "-x", strings.Repeat("x", 129), "a\nb"} {
		add("tag "+short(tag), "repository library/nginx: tag", repository{name: "library/nginx", tag: tag, digest: sound})
	}
	for _, digest := range []string{"sha256:../../../etc", "sha256:" + strings.Repeat("g", 64), "sha512:" + strings.Repeat("0", 128), "sha256:" + strings.Repeat("A", 64), "", "md5:x"} {
		add("digest "+short(digest), "repository library/nginx: revision", repository{name: "library/nginx", tag: "latest", digest: digest})
	}
	sized := func(size int) repository {
		return repository{name: "a", tag: "b", digest: sound, blobs: []Doc{{"digest": sound, "size": size}}}
	}
	add("blob of 1 byte, by the document", "the manifest does not list what registry layer", sized(1))
	add("blob of -1 bytes, by the document", "of -1 bytes", sized(-1))
	return out
}

// short quotes s, or says its length.
func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", s[:10], len(s))
	}
	return fmt.Sprintf("%q", s)
}

func documentForms() []Case {
	sound := repository{name: "library/nginx", tag: "latest", digest: Digest([]byte(stored))}.document()
	var indented strings.Builder
	var any map[string]any
	must(json.Unmarshal(sound, &any))
	e := json.NewEncoder(&indented)
	e.SetIndent("", " ")
	must(e.Encode(any))
	repositories := `{"schemaVersion":1,"repositories":[` + strings.Repeat(`{"name":"a","revisions":[]},`, 100_000) + `{}],"blobs":[]}`
	large := `{"schemaVersion":1,"repositories":[` + strings.Repeat(`{"name":"a","revisions":[]},`, 1_300_000) + `{}],"blobs":[]}`
	var out []Case
	for _, c := range []struct {
		name, text string
		layer      func() Layer
	}{
		{"not in sealer's own form", "not in canonical form", func() Layer { return Document([]byte(indented.String()), []byte(stored)) }},
		{"with a key twice", "not in canonical form", func() Layer {
			return Document([]byte(`{"schemaVersion":1,"schemaVersion":1,"repositories":[],"blobs":[]}`))
		}},
		{"of another version", "schemaVersion 2: this sealer reads 1", func() Layer { return Document([]byte(`{"schemaVersion":2,"repositories":[],"blobs":[]}`)) }},
		{"that is null", "schemaVersion 0: this sealer reads 1", func() Layer { return Document([]byte(`null`)) }},
		{"that is empty", "invalid registry layer document: EOF", func() Layer { return Document([]byte{}) }},
		{"with a blob that the manifest lacks", "the manifest does not list what registry layer", func() Layer { return Document(sound) }},
		{"without a blob that the manifest has", "the manifest has layers that the config lacks", func() Layer {
			return Document(sound, []byte(stored), []byte("more"))
		}},
		{"nested 20,000 deep", "more entries than so many bytes can name", func() Layer {
			return Document([]byte(strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)))
		}},
		{"with 100,000 faults: 20 are printed", "repository a stands twice", func() Layer { return Document([]byte(repositories)) }},
		{"of 6 million empty tags in 16 MB", "more entries than so many bytes can name", func() Layer {
			return Document([]byte(`{"schemaVersion":1,"repositories":[{"name":"a","tags":[` + strings.Repeat("{},", 6_000_000) + `{}],"revisions":[]}],"blobs":[]}`))
		}},
		{"of 3,300,000 references, all the same", "stands after", func() Layer {
			return Document([]byte(`{"schemaVersion":1,"repositories":[{"name":"a","revisions":[{"digest":"` + Digest(nil) + `","mediaType":"x","size":0,"sources":[` + strings.Repeat(`"a.b/c:1",`, 3_300_000) + `"a.b/c:1"]}]}],"blobs":[]}`))
		}},
		{"of 36 MB", "beyond a limit: a registry layer document of more than 33554432 bytes", func() Layer { return Document([]byte(large)) }},
	} {
		out = append(out, loads("registry layer document", c.name, func(Places) []byte {
			return Image{Name: loaded, Layers: []Layer{c.layer()}}.Archive()
		}, c.text))
	}
	return out
}

// configs returns images whose config or manifest lies.
func configs() []Case {
	blob := Tar(File("a", "x"))
	wrong := "sha256:" + strings.Repeat("1", 64)
	var out []Case
	for _, c := range []struct {
		name, text string
		image      Image
	}{
		{"layer ID with ..", "invalid checksum digest length", Image{Layers: []Layer{{Blob: blob, ID: "sha256:../../../../tmp/evil"}}}},
		{"layer ID of other content", "the digest of its tar is", Image{Layers: []Layer{{Blob: blob, ID: wrong}}}},
		{"layer size of 2^63-1", "no space left on device", Image{Layers: []Layer{{Blob: blob, Size: int64(1<<63 - 1)}}}},
		{"layer size that is negative", "layer 0 of -5 bytes", Image{Layers: []Layer{{Blob: blob, Size: -5}}}},
		{"layer size that is wrong", "its files have 1 bytes, want 77", Image{Layers: []Layer{{Blob: blob, Size: 77}}}},
		{"layer size that is wrong, of a layer that is there", "its files have 1 bytes, want 77", Image{Layers: []Layer{{Blob: blob, Size: 77}}}},
		{"layer size that is a text", "cannot unmarshal string", Image{Layers: []Layer{{Blob: blob, Size: "1"}}}},
		{"config without layers, the manifest has one", "the manifest has layers that the config lacks", Image{Layers: []Layer{{Blob: blob}}, Config: Doc{"layers": nil}}},
		{"manifest without layers, the config has one", "the config has 1 layers, the manifest 0", Image{Layers: []Layer{{Blob: blob}}, Manifest: Doc{"layers": nil}}},
		{"manifest with a layer of 2^62 bytes", "not found", Image{Layers: []Layer{{Blob: blob}}, Manifest: Doc{"layers": []Doc{{"mediaType": mediaTar, "digest": Digest(blob), "size": int64(1 << 62)}}}}},
		{"manifest with a layer of -1 bytes", "not found", Image{Layers: []Layer{{Blob: blob}}, Manifest: Doc{"layers": []Doc{{"mediaType": mediaTar, "digest": Digest(blob), "size": -1}}}}},
		{"manifest that names a layer with ..", "invalid checksum digest length", Image{Layers: []Layer{{Blob: blob, Digest: "sha256:../../../../../tmp/evil"}}}},
		{"manifest that names a config with ..", "invalid checksum digest length", Image{Layers: []Layer{{Blob: blob}}, Manifest: Doc{"config": Doc{"mediaType": mediaConfig, "digest": "sha256:../../x", "size": 1}}}},
		{"manifest of an unknown type", "it says that it is a", Image{Layers: []Layer{{Blob: blob}}, Manifest: Doc{"mediaType": "text/plain"}}},
		{"layer of an unknown type", "", Image{Layers: []Layer{{Blob: blob, MediaType: "text/plain"}}}},
		{"private registry with a path in its name", "want host[:port]", Image{Layers: []Layer{{Blob: blob}}, Config: Doc{"registry": Doc{"name": "../../etc", "naming": "path"}}}},
		{"platform of escape sequences", "li\\u001b[2jnux/amd64", Image{Layers: []Layer{{Blob: blob}}, Config: Doc{"platform": Doc{"os": "li\x1b[2Jnux", "architecture": "amd64"}}}},
		{"layer in gzip that is cut", "unexpected EOF", Image{Layers: []Layer{{Blob: Gzip(blob)[:60], MediaType: mediaTar + "+gzip", ID: Digest(blob)}}}},
		{"layer of 64 MiB of zeros in 64 kB, limit 1 MiB", "beyond a limit: its files unpack to more than 1048576 bytes", Image{Layers: []Layer{bomb()}}},
	} {
		c.image.Name = loaded
		one := loads("manifest and config", c.name, func(Places) []byte { return c.image.Archive() }, c.text)
		if strings.Contains(c.name, "limit 1 MiB") {
			one.Args = append(one.Args, "--limit", "unpacked=1MiB")
		}
		switch c.name {
		case "platform of escape sequences": // taken, and shown so
			one.Exit, one.Args = 0, []string{"load", "-i", "in.tar"}
		case "layer size that is wrong, of a layer that is there":
			one.Make = func(dir string, _ Places) {
				Write(dir, "in.tar", string(c.image.Archive()))
				c.image.Layers[0].Size = 1
				Write(dir, "right.tar", string(c.image.Archive()))
			}
			one.First = []string{"load", "-q", "-i", "right.tar"}
		}
		out = append(out, one)
	}
	return out
}

// bomb returns a layer that unpacks to a thousand times its size.
func bomb() Layer {
	t := Tar(File("zeros", strings.Repeat("\x00", 64<<20)))
	return Layer{Blob: Gzip(t), MediaType: mediaTar + "+gzip", ID: Digest(t)}
}
