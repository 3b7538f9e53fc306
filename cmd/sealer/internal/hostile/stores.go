package hostile

import (
	"maps"
	"slices"
	"strings"
)

// stores returns stores and settings whose files are not what they should be. The
// file names are those beside the directory of the input.
func stores() []Case {
	const layout, index = "../store/image/oci-layout", "../store/image/index.json"
	sound := map[string]string{layout: `{"imageLayoutVersion":"1.0.0"}`, index: `{"schemaVersion":2,"manifests":[]}`}
	build := []string{"build", "--offline", "-q", "--scan", "off", "-t", loaded, "."}
	descriptor := func(fields string) string {
		return `{"schemaVersion":2,"manifests":[{"mediaType":"` + mediaManifest + `",` + fields + `,"annotations":{"org.opencontainers.image.ref.name":"evil.example/x/c:1"}}]}`
	}
	var out []Case
	for _, c := range []struct {
		name, text string
		exit       int
		args       []string
		files      map[string]string
	}{
		{"index.json is a link outside", "invalid character 'A'", 1, build, map[string]string{index: "-> {victim}/file"}},
		{"index.json is a directory", "is a directory", 1, build, map[string]string{index + "/x": ""}},
		{"index.json is /dev/zero", "it has more than 67108864 bytes", 1, build, map[string]string{index: "-> /dev/zero"}},
		{"index.json names digests with ..", "invalid checksum digest length", 1, []string{"images"}, map[string]string{index: descriptor(`"digest":"sha256:../../../../victim/file","size":21`)}},
		{"index.json names an image by MD5", "unsupported digest algorithm", 1, []string{"images"}, map[string]string{index: descriptor(`"digest":"md5:d41d8cd98f00b204e9800998ecf8427e","size":21`)}},
		{"index.json names an image of -1 bytes", "not found", 1, []string{"images"}, map[string]string{index: descriptor(`"digest":"` + Digest(nil) + `","size":-1`)}},
		{"the settings are /dev/zero", "it has more than 1048576 bytes", 2, []string{"images"}, map[string]string{"../home/.config/sealer/config.yaml": "-> /dev/zero"}},
		{"the settings' aliases multiply to 10^9", "no such setting", 2, []string{"images"}, map[string]string{"../home/.config/sealer/config.yaml": manyAliases()}},
		{"the settings name a flag with escape sequences", "roo\\u001b[2Jt: no such setting", 2, []string{"images"}, map[string]string{"../home/.config/sealer/config.yaml": "\"roo\\e[2Jt\": x\n"}},
	} {
		files := maps.Clone(sound)
		maps.Copy(files, c.files)
		if _, ok := files[index+"/x"]; ok {
			delete(files, index)
		}
		one := Case{Group: "store and settings", Name: c.name, Exit: c.exit, Text: c.text, Args: c.args, Make: func(dir string, p Places) {
			Write(dir, "a", "1")
			Write(dir, "Kubefile", "FROM scratch\nCOPY a .\n")
			for _, name := range slices.Sorted(maps.Keys(files)) {
				place(dir, name, p.in(files[name]))
			}
		}}
		out = append(out, one)
	}
	return out
}

// manyAliases returns YAML whose aliases stand for 10^9 values.
func manyAliases() string {
	var b strings.Builder
	b.WriteString("a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'j'; c++ {
		b.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n")
	}
	return b.String()
}
