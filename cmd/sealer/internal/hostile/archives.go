package hostile

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// sound is an archive that loads.
func sound() []byte {
	return Image{Name: loaded, Layers: []Layer{{Blob: Tar(File("a", "x"))}}}.Archive()
}

// indexed returns an archive with nothing but an index.json.
func indexed(index string) []byte { return Tar(File("index.json", index)) }

// archives returns files for sealer load.
func archives() []Case {
	noise := make([]byte, 5000)
	source := rand.NewChaCha8([32]byte{})
	_, err := source.Read(noise)
	must(err)
	zeros := strings.Repeat("0", 64)
	var out []Case
	for _, c := range []struct {
		name, text string
		archive    func() []byte
	}{
		{"empty file", "it has no index.json, so it is no OCI image layout", func() []byte { return nil }},
		{"random bytes", "invalid tar header", func() []byte { return noise }},
		{"cut after 3,000 bytes", "unexpected EOF", func() []byte { return sound()[:3000] }},
		{"gzip of an archive that is cut", "unexpected EOF", func() []byte { return Gzip(sound()[:3000]) }},
		{"gzip that is cut", "unexpected EOF", func() []byte { b := Gzip(sound()); return b[:len(b)-20] }},
		{"gzip in gzip in gzip", "invalid tar header", func() []byte { return Gzip(Gzip(Gzip(sound()))) }},
		{"index.json: empty", "index.json: EOF", func() []byte { return indexed("") }},
		{"index.json: null", "no image in it", func() []byte { return indexed("null") }},
		{"index.json: []", "index.json: json: cannot unmarshal", func() []byte { return indexed("[]") }},
		{"index.json: no image", "no image in it", func() []byte { return indexed(`{"schemaVersion":2,"manifests":[]}`) }},
		{"index.json: of a later version", "is a \"x/y\"", func() []byte {
			return indexed(`{"schemaVersion":99,"manifests":[{"mediaType":"x/y","digest":"sha256:` + zeros + `","size":1}]}`)
		}},
		{"index.json: an image that the archive lacks", "not found", func() []byte {
			return indexed(`{"schemaVersion":2,"manifests":[{"mediaType":"` + mediaManifest + `","digest":"sha256:` + zeros + `","size":1}]}`)
		}},
		{"index.json: nested 500,000 deep", "exceeded max depth", func() []byte { return indexed(`{"manifests":` + strings.Repeat("[", 500_000)) }},
		{"index.json: twice", "no image in it", func() []byte { return append(sound()[:len(sound())-1024], indexed(`{"manifests":[]}`)...) }},
		{"index.json: a link to /etc/passwd", "it has no index.json, so it is no OCI image layout", func() []byte { return Tar(Symlink("index.json", "/etc/passwd")) }},
		{"index.json: a size of 2^40", "an index.json of 1099511627776 bytes", func() []byte { e := File("index.json", "{}"); e.Lie = 1 << 40; return Tar(e) }},
		{"index.json: an image's name with escape sequences", "<none>", func() []byte {
			return Image{Name: "evil.example/x\x1b[2J:1", Layers: []Layer{{Blob: Tar(File("a", "x"))}}}.Archive()
		}},
		{"index.json: an image's name with ..", "<none>", func() []byte {
			return Image{Name: "../../../etc/passwd", Layers: []Layer{{Blob: Tar(File("a", "x"))}}}.Archive()
		}},
		{"index.json: 100,000 images that the archive lacks", "its index.json has more than", func() []byte {
			one := `{"mediaType":"` + mediaManifest + `","digest":"sha256:` + zeros + `","size":1}`
			return indexed(`{"schemaVersion":2,"manifests":[` + strings.Repeat(one+",", 99_999) + one + `]}`)
		}},
		{"index.json: an image by SHA-512", "only sha256 is supported", func() []byte {
			return indexed(`{"schemaVersion":2,"manifests":[{"mediaType":"` + mediaManifest + `","digest":"sha512:` + zeros + zeros + `","size":1}]}`)
		}},
		{"index.json: an image of -1 bytes", "not found", func() []byte {
			return indexed(`{"schemaVersion":2,"manifests":[{"mediaType":"` + mediaManifest + `","digest":"sha256:` + zeros + `","size":-1}]}`)
		}},
		{"index.json: the same image under 50,000 names", "its index.json has more than", func() []byte {
			index, _, blobs := Image{Name: loaded, Layers: []Layer{{Blob: Tar(File("a", "x"))}}}.Parts()
			var one struct{ Manifests []json.RawMessage }
			must(json.Unmarshal(index, &one))
			var all []string
			for i := range 50_000 {
				all = append(all, strings.Replace(string(one.Manifests[0]), loaded, fmt.Sprintf("evil.example/x/c:%d", i), 1))
			}
			entries := []Entry{File("index.json", `{"schemaVersion":2,"manifests":[`+strings.Join(all, ",")+`]}`)}
			for d, b := range blobs {
				entries = append(entries, File("blobs/sha256/"+d[len("sha256:"):], string(b)))
			}
			return Tar(entries...)
		}},
		{"index.json: itself an image", "no manifest of it: not found", nestedIndex},
		{"blob under a digest that is not its own", "content does not match its descriptor", func() []byte { return Tar(File("blobs/sha256/"+zeros, "abc"), File("index.json", "{}")) }},
		{"blob that is a link to /etc/passwd", "it has no index.json, so it is no OCI image layout", func() []byte { return Tar(Symlink("blobs/sha256/"+zeros, "/etc/passwd")) }},
		{"blob with .. in its name", "it has no index.json, so it is no OCI image layout", func() []byte { return Tar(File("blobs/sha256/../../../x", "abc")) }},
		{"blob of 2^50 bytes in its header", "no space left on device", func() []byte { e := File("blobs/sha256/"+zeros, "abc"); e.Lie = 1 << 50; return Tar(e) }},
		{"archive of docker save", "it is an archive of docker save without an OCI image layout", func() []byte { return Tar(File("manifest.json", "[]")) }},
		{"sound, with 100 files outside of the layout", "", func() []byte { return extra(File("../../x", "evil")) }},
		{"sound, with 100 blobs that nothing names", "", func() []byte { return extra(Entry{}) }},
		{"sound, with 1,000 entries, limit 100", "beyond a limit: the archive has more than 100 entries", func() []byte { return extra(Entry{}) }},
	} {
		one := loads("archive", c.name, func(Places) []byte { return c.archive() }, c.text)
		if c.text == "<none>" { // taken without the name
			one.Exit, one.Args = 0, []string{"load", "-i", "in.tar"}
		}
		if strings.Contains(c.name, "limit 100") {
			one.Args = append(one.Args, "--limit", "entries=100")
		}
		out = append(out, one)
	}
	return out
}

// extra returns a sound archive with 100 more entries; without a name they are
// blobs.
func extra(e Entry) []byte {
	var more []Entry
	for i := range 100 {
		add := e
		if e.Name == "" {
			content := fmt.Sprint("unnamed ", i)
			add = File("blobs/sha256/"+Digest([]byte(content))[len("sha256:"):], content)
		}
		more = append(more, add)
	}
	more = append(more, Node("dev", tar.TypeChar, 1, 3))
	return append(sound()[:len(sound())-1024], Tar(more...)...) // before the two blocks at the end
}

// nestedIndex returns an archive whose index names an index that names itself, as
// far as digests allow: it is of content that is not there.
func nestedIndex() []byte {
	inner := encode(Doc{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []Doc{{"mediaType": mediaIndex, "digest": Digest(nil), "size": 0}}})
	outer := encode(Doc{"schemaVersion": 2, "manifests": []Doc{{"mediaType": mediaIndex, "digest": Digest(inner), "size": len(inner)}}})
	return Tar(File("index.json", string(outer)), File("blobs/sha256/"+Digest(inner)[len("sha256:"):], string(inner)), File("blobs/sha256/"+Digest(nil)[len("sha256:"):], ""))
}
