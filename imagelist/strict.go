package imagelist

import (
	"regexp"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// isPlaceholder reports whether a text waits to be replaced: template actions
// and variables of many languages, REPLACE_ME, IMAGE_NAME, app:__TAG__.
func isPlaceholder(s string) bool {
	if strings.ContainsAny(s, "{}$<>%+()") || strings.Contains(s, actionMark) || strings.Contains(s, "[[") {
		return true
	}
	if strings.HasPrefix(s, "ko://") { // an import path, for which ko puts the image that it built
		return true
	}
	if strings.HasPrefix(s, "@") || strings.Contains(s, ":@") || markedWord.MatchString(s) {
		return true
	}
	up := strings.ToUpper(s)
	if strings.Contains(up, "REPLACE") || strings.Contains(up, "PLACEHOLDER") || strings.Contains(up, "CHANGEME") {
		return true
	}
	name, tag := splitTag(s)
	return wordInCapitals.MatchString(name[strings.LastIndexByte(name, '/')+1:]) || wordInCapitals.MatchString(tag)
}

var (
	markedWord = regexp.MustCompile(`(?:^|[/:_-])__[A-Za-z][A-Za-z_]*?__(?:$|[/:_-])`)
	// wordInCapitals is IMAGE, MY_TAG, YOUR-VERSION: no repository has capitals,
	// and tags such as LATEST or RELEASE.2024 say neither of these words.
	wordInCapitals = regexp.MustCompile(`^(?:[A-Z]+[_-])*(?:IMAGE|TAG|VERSION|NAME|REGISTRY|REPOSITORY)(?:[_-][A-Z]+)*$`)
)

// A verdict is a judgement about a text in a place that may hold an image.
type verdict struct {
	ref        ref.Reference
	confidence Confidence // "" when it is no image
	reason     string     // why it is none, or not surely one; "" says that it does not even look so
}

// judge decides whether value, which stands under a key that speaks of an
// image, is one. It asks more than that it parses, since nearly every word
// does: a registry, a digest, or a tag that looks like one.
func judge(key, value string) verdict {
	value = strings.TrimPrefix(plain(value), "oci://") // as operators and meshes write images of plugins
	if why := noImage(key, value); why != "" {
		return verdict{reason: why}
	}
	r, err := ref.Parse(value)
	if err != nil {
		return verdict{reason: why(err).Error()}
	}
	name, tag := splitTag(value)
	switch hosted := hasHost(value); {
	case value == "" || !hasLetter(name):
		return verdict{}
	case hosted && sourceHost[r.Registry]:
		return verdict{ref: r, reason: "a place for source code"}
	case hosted && strings.HasSuffix(r.Registry, ".invalid"):
		return verdict{ref: r, reason: "a name that never exists: RFC 6761 keeps .invalid for that"}
	case r.Registry == "localhost" || strings.HasPrefix(r.Registry, "localhost:") || strings.HasPrefix(r.Registry, "127.0.0.1"):
		return verdict{ref: r, confidence: Low, reason: "a registry of the machine itself"}
	case isNamespace(r):
		return verdict{ref: r, reason: "a namespace of " + r.Registry + ", in which the program names repositories"}
	case r.Digest != "":
		return verdict{ref: r, confidence: High}
	case hosted && tag != "":
		return verdict{ref: r, confidence: High}
	case hosted:
		return verdict{ref: r, confidence: Medium}
	case tag != "" && strings.Contains(name, ".") && !strings.Contains(name, "/") && isNumber(tag):
		return verdict{reason: "an address"}
	case tag != "" && plausibleTag(tag):
		return verdict{ref: r, confidence: High}
	case tag != "":
		return verdict{ref: r, confidence: Low, reason: "its tag does not look like a version"}
	case strings.Contains(value, "/"):
		return verdict{ref: r, confidence: Low, reason: "it has neither registry, tag nor digest"}
	}
	return verdict{}
}

// plain takes white space and the schemes of programs that pull images away:
// docker://quay.io/a/b:1 (containers' tools), docker:quay.io/a/b:1 (Spring).
func plain(value string) string {
	value = strings.TrimSpace(value)
	if rest, ok := strings.CutPrefix(value, "docker://"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(value, "docker:"); ok && strings.Contains(rest, "/") {
		return rest
	}
	return value
}

// noImage names the kind of a text that is certainly no image, "" when the text
// may be one.
func noImage(key, value string) string {
	switch {
	case isPlaceholder(value):
		return "a placeholder"
	case strings.ContainsAny(value, "*?"):
		return "a pattern"
	case strings.Contains(value, "://"):
		return "a URL"
	case strings.HasPrefix(value, "/"), strings.HasPrefix(value, "."):
		return "a path"
	case isFileName(value):
		return "the name of a file"
	case platformName.MatchString(value):
		return "a platform"
	case apiVersionName.MatchString(value):
		return "a version of an API"
	case !hasHost(value) && isPictureKey(key):
		return "the key of a picture"
	}
	return ""
}

var (
	platformName   = regexp.MustCompile(`^(linux|windows|darwin)/(amd64|arm64|arm|386|ppc64le|s390x|riscv64)(/v[0-9])?$`)
	apiVersionName = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+/v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// fileEndings are the endings of names of files, which as tags are no
// versions.
var fileEndings = wordSet("png jpg jpeg svg gif ico webp bmp tif tiff iso img qcow qcow2 raw vmdk ova vhd vhdx tar gz tgz xz zip json yml yaml htm html css js conf cfg ini sh py txt md xml pem crt so jar exe rpm deb")

func isFileName(s string) bool {
	i := strings.LastIndexByte(s, '.')
	return i >= 0 && len(s)-i <= 6 && fileEndings[strings.ToLower(s[i+1:])]
}

// pictureWords are words in keys of pictures.
var pictureWords = wordSet("background banner icon logo thumb thumbnail avatar picture photo favicon cover hero splash preview wallpaper screenshot")

func isPictureKey(key string) bool {
	for _, w := range words(key) {
		if pictureWords[w] {
			return true
		}
	}
	return false
}

// tagWords are the words that are tags without a number in them.
var tagWords = wordSet("latest stable main master edge dev devel develop development nightly canary release test testing staging production prod alpine slim dind debian ubuntu head snapshot current lts beta alpha rc full glibc musl")

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// plausibleTag reports whether a tag without a registry before it is more than
// the second half of any "word:word".
func plausibleTag(tag string) bool {
	return strings.ContainsAny(tag, "0123456789") || strings.Contains(strings.Trim(tag, "-"), "-") || tagWords[strings.ToLower(tag)]
}

// sourceHost are hosts of source code, which stand in places that look like
// repositories of images. Their registries have other names.
var sourceHost = map[string]bool{
	"github.com": true, "gitlab.com": true, "bitbucket.org": true, "codeberg.org": true, "gitee.com": true, "raw.githubusercontent.com": true, "buf.build": true,
}

// namespaced are registries whose repositories all stand in the namespace of
// an owner, so that a path of one element is no image.
var namespaced = map[string]bool{
	"quay.io": true, "ghcr.io": true, "gcr.io": true, "eu.gcr.io": true, "us.gcr.io": true, "asia.gcr.io": true, "public.ecr.aws": true,
	"nvcr.io": true, "registry.gitlab.com": true, "docker.pkg.github.com": true, "registry.connect.redhat.com": true, "xpkg.upbound.io": true,
}

func isNamespace(r ref.Reference) bool {
	return namespaced[r.Registry] && !strings.Contains(r.Repository, "/")
}

// splitTag returns the text before the tag or digest, and the tag.
func splitTag(s string) (name, tag string) {
	s, _, _ = strings.Cut(s, "@")
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, '/') {
		return s[:i], s[i+1:]
	}
	return s, ""
}

func hasLetter(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c >= 'a' && c <= 'z' }) >= 0
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

var domain = regexp.MustCompile(`^(?:[a-z0-9-]+\.)+[a-z]{2,}(?::[0-9]+)?$`)

// hosted decides whether a value whose key says nothing of images is one: it
// must begin with the domain of a registry and have a digest, or a tag that
// looks like a version.
func hosted(value string) (ref.Reference, bool) {
	value = plain(value)
	if !strings.Contains(value, "/") || noImage("", value) != "" {
		return ref.Reference{}, false
	}
	host, rest, _ := strings.Cut(value, "/")
	if !domain.MatchString(host) || sourceHost[host] || strings.Contains(host, ".svc") || strings.HasSuffix(host, ".local") || isLabelDomain(host) {
		return ref.Reference{}, false
	}
	r, err := ref.Parse(value)
	if err != nil || isNamespace(r) {
		return ref.Reference{}, false
	}
	_, tag := splitTag(value)
	switch {
	case r.Digest != "":
		return r, true
	case tag == "":
		return ref.Reference{}, false
	case isNumber(tag) && !strings.Contains(rest, "/"):
		return ref.Reference{}, false // a quantity: nvidia.com/gpu:2
	}
	return r, plausibleTag(tag)
}

// isLabelDomain reports whether a host is one that labels, taints and resources
// of Kubernetes begin with: topology.kubernetes.io/zone:a1.
func isLabelDomain(host string) bool {
	return host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") ||
		(host == "k8s.io" || strings.HasSuffix(host, ".k8s.io")) && !strings.HasPrefix(host, "registry")
}

// norm makes keys of all spellings comparable: imageTag, image_tag, IMAGE-TAG.
func norm(key string) string {
	return strings.ToLower(strings.Map(func(c rune) rune {
		switch c {
		case '_', '-', '.', ' ':
			return -1
		}
		return c
	}, key))
}

// notOfImages are words in keys that speak of something around an image.
var notOfImages = wordSet("pull policy policies secret secrets gc cache path size timeout threshold dir directory registry registries format scan update count verify signature archive pullpolicy user password interval limit mirror mirrors regex username auth insecure type family")

// words takes a key apart: at separators, and where a capital begins a word.
func words(key string) []string {
	var b strings.Builder
	lower := false
	for _, c := range key {
		if c >= 'A' && c <= 'Z' && lower {
			b.WriteByte(' ')
		}
		lower = c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if strings.ContainsRune("_-./:", c) {
			c = ' '
		}
		b.WriteRune(c)
	}
	return strings.Fields(strings.ToLower(b.String()))
}

// isImageKey reports whether the value of a field of a custom resource with
// this key is an image.
func isImageKey(key string) bool {
	k := norm(key)
	for _, suffix := range []string{"image", "imageref", "imagereference", "imagename", "imageurl", "imageuri", "imagespec", "imagefullname", "imagepullspec", "pullspec"} {
		if strings.HasSuffix(k, suffix) {
			return true
		}
	}
	return false
}

// pushed are words in keys of images that are made, not pulled.
var pushed = wordSet("output destination push pushspec")

func isPushed(key string) bool {
	for _, w := range words(key) {
		if pushed[w] {
			return true
		}
	}
	return false
}

// judged are words in keys of images that are allowed or refused, not pulled.
var judged = wordSet("allowed allow denied deny blocked trusted whitelist blacklist allowlist denylist pattern patterns excluded exclude ignored ignore exempt")

func isJudged(key string) bool {
	for _, w := range words(key) {
		if judged[w] {
			return true
		}
	}
	return false
}

// speaksOfImage is isImageKey for the names of variables, flags and settings,
// which put more words after it: RELATED_IMAGE_CONTROLLER.
func speaksOfImage(key string) bool {
	if len(key) < len("image") || !strings.Contains(strings.ToLower(key), "image") {
		return false
	}
	pullSpec := strings.HasSuffix(norm(key), "pullspec") // OpenShift's word for a reference
	for _, w := range words(key) {
		if notOfImages[w] && !(pullSpec && w == "pull") || judged[w] {
			return false
		}
	}
	return true
}
