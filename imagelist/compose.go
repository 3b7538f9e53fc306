package imagelist

import (
	"path"
	"slices"
	"strings"
)

// A pair is a key with a scalar value: a field, a variable, a flag, a setting.
type pair struct {
	key, value string
	line       int
	field      string
}

// A role is the part of a reference that a key names.
type role int

const (
	noRole role = iota
	registryRole
	repositoryRole
	baseRole  // baseImage: a repository, always with a tag elsewhere
	imageRole // image: a repository, or all of a reference
	nameRole
	tagRole
	versionRole
	directoryRole // between the registry and the name
	digestRole
)

var roleSuffixes = []struct {
	suffix string
	role   role
}{
	{"repository", repositoryRole}, {"repo", repositoryRole},
	{"baseimage", baseRole}, {"image", imageRole}, {"name", nameRole},
	{"registry", registryRole}, {"hub", registryRole},
	{"versiontag", tagRole}, {"tag", tagRole}, {"version", versionRole},
	{"directory", directoryRole},
	{"digest", digestRole}, {"sha256", digestRole}, {"sha", digestRole},
}

// roleOf takes a key apart: "proxyImageTag" is the tag of "proxy".
func roleOf(key string) (of string, r role) {
	k := norm(key)
	for _, s := range roleSuffixes {
		of, ok := strings.CutSuffix(k, s.suffix)
		if !ok {
			continue
		}
		image := strings.HasSuffix(of, "image")
		of = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(of, "image"), "container"), "default")
		if s.role == nameRole {
			if image {
				return of, repositoryRole // image_name, imageName
			}
			if of != "" {
				return "", noRole // hostname
			}
		}
		return of, s.role
	}
	return "", noRole
}

// parts are the pairs of one image, by role.
type parts [digestRole + 1]*pair

func (g parts) value(r role) string {
	if g[r] == nil {
		return ""
	}
	return strings.TrimSpace(g[r].value)
}

// inherited are the settings of outer maps that hold for the images in them.
type inherited struct {
	registry, tag, version string
	prefix                 string // registry and namespace
	global                 string // registry of the images that name none
	appVersion             string // of a chart, for the values of a chart
}

// A composition is a reference put together from several pairs.
type composition struct {
	written    string
	at         *pair // where to find it: the repository
	used       []*pair
	confidence Confidence
}

// otherThings are words before "repository" or "version" that tell of another
// kind of repository.
var otherThings = []string{"git", "helm", "chart", "maven", "npm", "apt", "yum", "pypi"}

// otherWords are words of which the same holds, unless the value begins with a
// registry: databaseRepository: quay.io/x/db.
var otherWords = []string{"source", "schema", "database"}

// notForImages reports whether a key, of which roleOf gave of, is of another kind
// of repository. One that says container is of an image: git_sync_container_tag.
func notForImages(key, of string) bool {
	return !strings.Contains(strings.ToLower(key), "container") && slices.ContainsFunc(otherThings, func(w string) bool { return strings.Contains(of, w) })
}

// mayBeOther reports whether the pairs of one name are for images only where one
// of them begins with a registry.
func mayBeOther(of string) bool {
	switch of {
	case "api", "k8s", "db", "kube", "kubernetes":
		return true
	}
	return slices.ContainsFunc(otherWords, func(w string) bool { return strings.Contains(of, w) })
}

// dropOthers takes out the groups that are of something else. An apiVersion is
// no tag.
func dropOthers(groups map[string]*parts, order []string) []string {
	return slices.DeleteFunc(order, func(of string) bool {
		if !mayBeOther(of) {
			return false
		}
		g := groups[of]
		for _, r := range []role{repositoryRole, baseRole, imageRole} {
			host, _, _ := strings.Cut(g.value(r), "/")
			if hasHost(g.value(r)) && !sourceHost[host] {
				if strings.HasPrefix(of, "api") || strings.HasPrefix(of, "k") {
					g[versionRole] = nil
				}
				return false
			}
		}
		return true
	})
}

// compose finds the references that are split over pairs. imageKey says that
// the map they stand in is the value of an image key.
func compose(pairs []pair, imageKey bool, in inherited) []composition {
	groups, order := grouped(pairs)
	if !imageKey {
		borrowVersions(groups, order)
	}
	var out []composition
	for _, of := range order {
		g := groups[of]
		if g.value(registryRole) == "" && of != "" && groups[""] != nil && g[repositoryRole] != nil {
			g[registryRole] = groups[""][registryRole]
		}
		if c, ok := g.compose(imageKey, in); ok && noImage(c.at.key, c.written) == "" {
			out = append(out, c)
		}
	}
	return out
}

// grouped returns the parts of each image that pairs name, and the order of
// the images.
func grouped(pairs []pair) (groups map[string]*parts, order []string) {
	groups = map[string]*parts{}
	for i := range pairs {
		of, r := roleOf(pairs[i].key)
		if r == noRole || notForImages(pairs[i].key, of) {
			continue
		}
		g, ok := groups[of]
		if !ok {
			g = &parts{}
			groups[of] = g
			order = append(order, of)
		}
		if g[r] == nil || g.value(r) == "" {
			g[r] = &pairs[i]
		}
	}
	return groups, dropOthers(groups, order)
}

// borrowVersions gives a repository without a tag beside it the version of the
// pair whose name ends alike: OPERATOR_AGENT_IMAGE_REPOSITORY, AGENT_VERSION.
func borrowVersions(groups map[string]*parts, order []string) {
	for _, of := range order {
		g := groups[of]
		if g[repositoryRole] == nil || !strings.Contains(norm(g[repositoryRole].key), "image") ||
			g[tagRole] != nil || g[versionRole] != nil || g[digestRole] != nil {
			continue
		}
		var from []*parts
		for _, other := range order {
			h := groups[other]
			alone := h[repositoryRole] == nil && h[imageRole] == nil && h[baseRole] == nil && (h[tagRole] != nil || h[versionRole] != nil)
			if alone && len(other) > 2 && strings.HasSuffix(of, other) {
				from = append(from, h)
			}
		}
		if len(from) == 1 {
			g[tagRole], g[versionRole] = from[0][tagRole], from[0][versionRole]
		}
	}
}

// untagged returns the pairs that name a repository beside a tag that is left
// empty, which is not "latest" then.
func untagged(pairs []pair, imageKey bool) (out []pair) {
	groups, order := grouped(pairs)
	for _, of := range order {
		g := groups[of]
		base, at := g.base(imageKey, inherited{})
		if at == nil || g[tagRole] == nil && g[versionRole] == nil || g.value(tagRole)+g.value(versionRole)+g.value(digestRole) != "" {
			continue
		}
		if _, tag := splitTag(base); tag == "" && !strings.Contains(base, "@") && (hasHost(base) || imageKey && strings.Contains(base, "/")) && noImage(at.key, base) == "" {
			out = append(out, *at)
		}
	}
	return out
}

var switchWords = wordSet("true false yes no on off enabled disabled none")

// compose puts one reference together. It gives none where one of the pairs
// is all of a reference already.
func (g parts) compose(imageKey bool, in inherited) (composition, bool) {
	base, at := g.base(imageKey, in)
	if base == "" || strings.Contains(base, "@") {
		return composition{}, false
	}
	if _, tag := splitTag(base); tag != "" {
		return composition{}, false
	}
	c := composition{at: at, confidence: High}
	for _, p := range g {
		if p != nil {
			c.used = append(c.used, p)
		}
	}
	tag := g.value(tagRole)
	if tag == "" && g[versionRole] != nil {
		tag, c.confidence = g.value(versionRole), Medium
		if at == g[baseRole] {
			c.confidence = High
		}
		if !strings.Contains(base, "/") && !imageKey {
			return composition{}, false
		}
	}
	digest := g.value(digestRole)
	if h, ok := strings.CutPrefix(tag, "sha256:"); ok {
		tag, digest = "", h
	}
	if tag == "" && digest == "" {
		if tag = g.inheritedTag(at, base, imageKey, in); tag == "" {
			return composition{}, false
		}
		c.confidence = Medium
	}
	c.written = base
	if tag != "" {
		c.written += ":" + tag
	}
	if digest != "" {
		c.written += "@sha256:" + strings.TrimPrefix(digest, "sha256:")
	}
	if !strings.Contains(base, "/") && strings.Contains(base, ".") || switchWords[strings.ToLower(path.Base(base))] {
		return composition{}, false // the domain of a registry, or a switch
	}
	v := judge(at.key, c.written)
	if isNamespace(v.ref) {
		return c, true // nothing is added of it, but the gap is told
	}
	if v.confidence == "" || v.confidence == Low && g[tagRole] == nil {
		return composition{}, false
	}
	return c, true
}

// joins reports whether a repository is only the namespace in which an image
// has the name: quay.io/org and app.
func joins(repository, name string) bool {
	if name == "" || strings.ContainsAny(name, "/:@ ") || strings.ContainsAny(repository, ":@") && !hasHost(repository) || path.Base(repository) == name {
		return false
	}
	space := repository
	if hasHost(repository) {
		_, space, _ = strings.Cut(repository, "/")
	}
	return !strings.Contains(strings.Trim(space, "/"), "/")
}

// base returns the reference without tag and digest, and the pair that it
// stands in.
func (g parts) base(imageKey bool, in inherited) (string, *pair) {
	var base string
	var at *pair
	repository, image := g.value(repositoryRole), g.value(imageRole)
	switch name := g.value(nameRole); {
	case imageKey && repository != "" && image == "" && g[tagRole] != nil && joins(repository, name):
		base, at = strings.TrimSuffix(repository, "/")+"/"+name, g[repositoryRole]
	case repository != "" && image != "" && !strings.ContainsAny(image, "/:@"):
		base, at = strings.TrimSuffix(repository, "/")+"/"+image, g[imageRole]
	case image != "":
		base, at = image, g[imageRole]
	case repository != "":
		base, at = repository, g[repositoryRole]
	case g.value(baseRole) != "":
		base, at = g.value(baseRole), g[baseRole]
	case g.value(nameRole) != "" && g.value(directoryRole) != "" && in.prefix != "":
		base, at = strings.TrimSuffix(in.prefix, "/")+"/"+strings.Trim(g.value(directoryRole), "/")+"/"+g.value(nameRole), g[nameRole]
	case g.value(nameRole) != "" && (imageKey || g.value(registryRole) != "" && g[tagRole] != nil):
		base, at = g.value(nameRole), g[nameRole]
	default:
		return "", nil
	}
	registry := g.value(registryRole)
	if registry == "" && !strings.ContainsAny(base, "/:@") && in.registry != "" && in.tag != "" && at == g[imageRole] {
		registry = in.registry // Istio: a bare image, hub and tag further out
	}
	if registry == "" && !strings.ContainsAny(base, "/:@") {
		registry = in.prefix
	}
	if registry == "" && at == g[repositoryRole] {
		registry = in.global
	}
	if registry != "" && !hasHost(base) && !strings.HasPrefix(base, registry+"/") {
		base = strings.TrimSuffix(registry, "/") + "/" + base
	}
	return base, at
}

// inheritedTag is the tag of an image that names none beside it: the version
// that an operator's resource gives for all its parts, or the tag that goes
// with an inherited registry, or a chart's appVersion.
func (g parts) inheritedTag(at *pair, base string, imageKey bool, in inherited) string {
	switch {
	case at == g[baseRole]:
		return in.version
	case at == g[imageRole] && in.registry != "" && in.tag != "" && strings.HasPrefix(base, in.registry+"/"):
		return in.tag
	case in.appVersion != "" && (g[tagRole] != nil || g[versionRole] != nil || imageKey):
		return in.appVersion
	case g[tagRole] != nil && in.tag != "":
		return in.tag
	case g[versionRole] != nil && imageKey && in.version != "":
		return in.version
	}
	return ""
}
