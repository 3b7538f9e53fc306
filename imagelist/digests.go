package imagelist

import (
	"path"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// digestNames are names of images that variables with a digest shorten.
var digestNames = map[string]string{"gs": "libguestfs-tools"} // KubeVirt's

// digestEndings stand behind the name of an image in variables with its digest.
var digestEndings = []string{"_SHASUM", "_SHA256", "_DIGEST"}

// besideDigests are the images that variables give with a digest alone, by the
// variable: operators such as KubeVirt's pull them from beside their own image, which
// is image, under the name that the variable has. One of the variables must share
// its first word with that image: VIRT_API_SHASUM with virt-operator.
func besideDigests(vars []pair, image string) map[string]ref.Reference {
	own, err := ref.Parse(plain(image))
	if err != nil {
		return nil
	}
	dir, base := path.Split(own.Repository)
	family, _, several := strings.Cut(base, "-")
	out, related := map[string]ref.Reference{}, false
	for _, v := range vars {
		if !digestAlone.MatchString(strings.TrimSpace(v.value)) {
			continue
		}
		for _, end := range digestEndings {
			name, ok := strings.CutSuffix(v.key, end)
			if !ok {
				continue
			}
			name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
			if full := digestNames[name]; full != "" {
				name = full
			}
			first, _, _ := strings.Cut(name, "-")
			related = related || several && first == family
			r, err := ref.Parse(own.Registry + "/" + dir + name + "@" + strings.TrimSpace(v.value))
			if err == nil {
				out[v.key] = r
			}
		}
	}
	if !related {
		return nil
	}
	return out
}
