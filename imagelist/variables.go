package imagelist

import (
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// A Variable is one that the image gives to its commands: ENV and APPENV.
type Variable struct {
	File        string // where it is written, as the user knows it: Kubefile
	Line        int
	Object      string // ENV, APPENV NAME
	Name, Value string
}

var variableOfImage = cause{Doubtful, "variable", "a variable of the image that names an image, which a program may pull, perhaps with a registry before it",
	"add the image to manifests/imageList, " + declare}

// imageVariables looks at the variables of the image, which programs of the rootfs
// read. A reference with a registry is taken. One without is told, where no finding
// has its name and tag: the program knows the registry.
func (s *scanner) imageVariables() {
	for _, v := range s.o.Variables {
		p := place{file: v.File, object: v.Object, limit: Medium}
		value := plain(v.Value)
		if _, ok := hosted(value); ok || hasHost(value) && speaksOfImage(v.Name) {
			s.setting(p, pair{key: v.Name, value: value, line: v.Line}, "env")
			continue
		}
		got := judge(v.Name, value)
		if !speaksOfImage(v.Name) || isPushed(v.Name) || repositoryOnly(v.Name) || !got.confidence.Mirrored() || s.endsWith(got.ref) {
			continue
		}
		s.gap(p, spot{line: v.Line, field: v.Name, written: value}, variableOfImage, v.Name)
	}
}

// endsWith reports whether an image was found whose name ends with that of r, and
// whose tag is r's.
func (s *scanner) endsWith(r ref.Reference) bool {
	name := strings.TrimPrefix(r.Repository, "library/")
	for _, f := range s.res.Found {
		if strings.HasSuffix("/"+f.Reference.Repository, "/"+name) && f.Reference.Tag == r.Tag {
			return true
		}
	}
	return false
}
