package imagelist

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A kustomization is one kustomization file: its sources, and the
// images that it puts in place of others, as kubectl's kustomize does it.
type kustomization struct {
	place  place
	node   *yaml.Node
	from   []string // resources, bases and components that are in the rootfs
	remote bool     // others are elsewhere, so an override may be for one of those
	images []override
	charts []homeChart
}

// An override is one entry of a kustomization's images.
type override struct {
	name                               string
	newName, newTag, tagSuffix, digest string
	place                              place
	line                               int
	field                              string
	used                               bool // some image was replaced by it
}

var (
	chartElsewhereGap   = cause{Open, "elsewhere", "a chart from elsewhere; its images are not in these files", elsewhereGap.remedy}
	brokenKustomization = cause{Open, "kustomization", "is not there, so that the kustomization cannot be built",
		"put the file there, or take the line out, " + declare}
)

func kustomizationFile(name string) bool {
	return slices.Contains(kustomizationNames[:], path.Base(name))
}

var kustomizationNames = [...]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomization notes a kustomization, and looks at the objects and settings
// that stand in it. Its effect on the images of other files is known only
// when all have been read: see kustomize.
func (s *scanner) kustomization(p place, n *yaml.Node) {
	if p.object == "" {
		p.object = "Kustomization"
	}
	k := &kustomization{place: p, node: n}
	for _, key := range []string{"resources", "bases", "components"} {
		for i, it := range items(get(n, key)) {
			switch name := path.Join(path.Dir(p.file), it.Value); {
			case !isScalar(it) || !kustomizationFile(p.file):
			case s.exists(name):
				k.from = append(k.from, name)
			case strings.Contains(it.Value, "\n"):
				s.embedded(p, it, atIndex(key, i))
			case isRemote(it.Value):
				k.remote = true
				s.gap(p, spot{it.Line, atIndex(key, i), it.Value, ""}, elsewhereGap, "")
			default:
				s.gap(p, spot{it.Line, atIndex(key, i), it.Value, ""}, brokenKustomization, p.file)
			}
		}
	}
	s.helmCharts(k, p, n)
	k.remote = k.remote || len(k.from)+len(k.charts) == 0 || len(items(get(n, "configurations"))) > 0
	for i, it := range items(get(n, "images")) {
		o := override{name: text(it, "name"), newName: text(it, "newName"), newTag: text(it, "newTag"), tagSuffix: text(it, "tagSuffix"),
			digest: text(it, "digest"), place: p, line: it.Line, field: atIndex("images", i)}
		if o.name != "" {
			k.images = append(k.images, o)
		}
	}
	s.kustomizations = append(s.kustomizations, k)
	if !p.podSpecsOnly {
		s.patches(p, n)
		s.generators(p, n)
	}
}

// isRemote reports whether a resource of a kustomization is a URL or names a
// repository of source code.
func isRemote(resource string) bool {
	host, _, more := strings.Cut(resource, "/")
	return strings.Contains(resource, "://") || strings.HasPrefix(resource, "git@") || strings.Contains(resource, "?ref=") ||
		more && domain.MatchString(host)
}

func (s *scanner) exists(name string) bool {
	_, err := fs.Stat(s.fsys, name)
	return err == nil
}

// patches looks at the patches that stand in a kustomization, and at the
// files of JSON patches that it names; files of other patches are objects and
// are read as such.
func (s *scanner) patches(p place, n *yaml.Node) {
	for _, key := range []string{"patches", "patchesJson6902", "patchesStrategicMerge"} {
		for i, it := range items(get(n, key)) {
			field := atIndex(key, i)
			if isScalar(it) && strings.Contains(it.Value, "\n") {
				s.embedded(p, it, field)
			}
			if v := get(it, "patch"); isScalar(v) {
				s.embedded(p, v, field+".patch")
			}
			if file := text(it, "path"); file != "" {
				s.patchFile(path.Join(path.Dir(p.file), file))
			}
		}
	}
}

func (s *scanner) patchFile(name string) {
	data, err := readLimited(s.fsys, name, maxFile)
	if err != nil {
		s.addGap(brokenKustomization, Gap{File: name, Reason: "the patch cannot be read: " + err.Error()})
		return
	}
	docs, _ := documents(data)
	for _, d := range docs {
		if isSeq(d.node) && check(d.node) == nil {
			s.jsonPatch(place{file: name, base: d.line, object: "JSON patch"}, d.node)
		}
	}
}

// isJSONPatch reports whether a list is one of RFC 6902 operations.
func isJSONPatch(list *yaml.Node) bool {
	ops := items(list)
	return len(ops) > 0 && text(ops[0], "op") != "" && strings.HasPrefix(text(ops[0], "path"), "/")
}

// jsonPatch looks at a list of RFC 6902 operations, and reports whether the
// list is one.
func (s *scanner) jsonPatch(p place, list *yaml.Node) bool {
	found := false
	for i, op := range items(list) {
		at, v := text(op, "path"), get(op, "value")
		if !strings.HasPrefix(at, "/") || text(op, "op") == "" {
			continue
		}
		found = true
		if v == nil || text(op, "op") == "test" {
			continue
		}
		key, parents := path.Base(at), strings.Split(path.Dir(at), "/")
		w, field := walker{s: s, p: p}, atIndex("", i)
		for _, list := range containerLists {
			if !isMap(v) || parents[len(parents)-1] != list {
				continue
			}
			s.container(p, v, field+".value", High) // the path is that of an element
			key = ""
		}
		if key != "" {
			w.value(entry{key, v, op.Line}, field, inherited{}, 0)
		}
	}
	return found
}

// generators looks at the sources of a kustomization's ConfigMaps.
func (s *scanner) generators(p place, n *yaml.Node) {
	for i, it := range items(get(n, "configMapGenerator")) {
		at := atIndex("configMapGenerator", i)
		data := &yaml.Node{Kind: yaml.MappingNode}
		for _, l := range items(get(it, "literals")) {
			if key, value, ok := strings.Cut(l.Value, "="); ok && isScalar(l) {
				scalar := func(text string) *yaml.Node {
					return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: l.Line}
				}
				data.Content = append(data.Content, scalar(key), scalar(strings.Trim(value, `"'`)))
			}
		}
		s.settings(p, data, at+".literals")
		for _, f := range append(items(get(it, "files")), items(get(it, "envs"))...) {
			key, name, ok := strings.Cut(f.Value, "=")
			if !ok {
				key, name = path.Base(f.Value), f.Value
			}
			name = path.Join(path.Dir(p.file), name)
			if documentation.MatchString(key) {
				continue
			}
			content, err := readLimited(s.fsys, name, maxDocument)
			if err != nil {
				s.addGap(brokenKustomization, Gap{File: p.file, Object: p.object, Text: name, Reason: "generates from a file that cannot be read: " + err.Error()})
				continue
			}
			s.embedded(place{file: name, object: "ConfigMap/" + text(it, "name")},
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: string(content)}, key)
		}
	}
}

// maxBuilds bounds how many files all kustomizations together are built from,
// each path from an overlay to a file counted.
const maxBuilds = 100_000

// kustomize replaces the images of files that are only used through
// kustomizations by their results.
func (s *scanner) kustomize() {
	if len(s.kustomizations) == 0 {
		return
	}
	b := kustomizer{s: s, at: map[string]*kustomization{}, files: map[string][]int{}, results: map[int][]result{}}
	inner := map[string]bool{}
	for _, k := range s.kustomizations {
		if kustomizationFile(k.place.file) {
			b.at[path.Dir(k.place.file)] = k
		}
		for _, name := range k.from {
			inner[name] = true
		}
	}
	for i, f := range s.res.Found {
		if f.Rule == "pod-spec" {
			b.files[f.File] = append(b.files[f.File], i)
		}
	}
	b.alone = b.chartsAlone()
	var top []*kustomization
	for _, k := range s.kustomizations {
		if !inner[path.Dir(k.place.file)] && !inner[k.place.file] {
			b.build(k, nil)
			if kustomizationFile(k.place.file) && text(k.node, "kind") != "Component" {
				top = append(top, k)
			}
		}
	}
	b.replace()
	for _, k := range s.kustomizations {
		for _, o := range k.images {
			s.unmatched(k, o)
		}
	}
	b.buildAll(top)
}

// A kustomizer follows the kustomizations that no other uses down to the files
// that they are built from.
type kustomizer struct {
	s       *scanner
	at      map[string]*kustomization // by directory
	files   map[string][]int          // the findings of each file
	results map[int][]result          // the images that each finding becomes, for each way to it
	alone   map[string]bool           // directories of charts that nothing but kustomizations renders
	builds  int
}

// A result is an image after the overrides; by is nil when none was for it.
type result struct {
	written string
	by      *override
}

// build goes through the sources of k; chain are the kustomizations around
// it, the innermost last.
func (b *kustomizer) build(k *kustomization, chain []*kustomization) {
	if slices.Contains(chain, k) {
		return // a cycle, which kustomize refuses
	}
	chain = append(slices.Clone(chain), k)
	for _, name := range k.from {
		if b.builds++; b.builds > maxBuilds {
			return
		}
		if inner := b.at[name]; inner != nil {
			b.build(inner, chain)
			continue
		}
		b.override(b.files[name], chain)
	}
	for _, c := range k.charts {
		if b.builds++; b.builds > maxBuilds {
			return
		}
		found := b.chartFindings(c.dir)
		b.override(found, chain)
		for _, i := range found {
			if !b.alone[c.dir] {
				b.results[i] = append(b.results[i], result{written: b.s.res.Found[i].Written})
			}
		}
	}
}

// override notes what the findings become on the way through chain.
func (b *kustomizer) override(found []int, chain []*kustomization) {
	for _, i := range found {
		r := result{written: b.s.res.Found[i].Written}
		for _, k := range slices.Backward(chain) {
			for j := range k.images {
				if written, ok := k.images[j].apply(r.written); ok {
					r = result{written, &k.images[j]}
					r.by.used = true
				}
			}
		}
		b.results[i] = append(b.results[i], r)
	}
}

var imageEnd = regexp.MustCompile(`(:[\w.{}-]*)?(@sha256:[0-9a-f]*)?$`)

// apply returns the image that the override puts in the place of written, and
// whether the override is for that image:
// by the name as it is written, as kustomize compares.
func (o *override) apply(written string) (string, bool) {
	name, tag := splitTag(written)
	if name != o.name {
		return "", false
	}
	end := imageEnd.FindString(written[len(name):])
	switch {
	case o.newTag != "" && o.digest != "":
		end = ":" + o.newTag + "@" + o.digest
	case o.newTag != "":
		end = ":" + o.newTag
	case o.digest != "":
		end = "@" + o.digest
	case o.tagSuffix != "" && tag != "":
		end = ":" + tag + o.tagSuffix
	}
	if o.newName != "" {
		name = o.newName
	}
	return name + end, true
}

// replace adds the images that overrides make, and rejects findings that are used in no
// other way.
func (b *kustomizer) replace() {
	var kept []Finding
	found := b.s.res.Found
	b.s.res.Found = nil
	for i, f := range found {
		rs := b.results[i]
		for _, r := range rs {
			if r.by != nil {
				p := r.by.place
				p.object, p.limit, p.reason = f.Object, f.Confidence, f.Reason
				b.s.add(p, spot{r.by.line, r.by.field, r.written, "kustomization"}, f.Confidence)
			}
		}
		unchanged := func(r result) bool { return r.by == nil }
		if len(rs) == 0 || slices.ContainsFunc(rs, unchanged) {
			kept = append(kept, f)
			continue
		}
		f.Reason = fmt.Sprintf("%s:%d puts %s in its place", rs[0].by.place.file, rs[0].by.line, rs[0].written)
		b.s.res.Rejected = append(b.s.res.Rejected, f)
	}
	b.s.res.Found = append(kept, b.s.res.Found...)
}

// unmatched takes an override that is for none of the images found: it may be
// for one in a base elsewhere, or in a field that only the user's
// configuration of kustomize knows.
func (s *scanner) unmatched(k *kustomization, o override) {
	if o.used || o.newTag == "" && o.digest == "" {
		return
	}
	written, _ := o.apply(o.name)
	if k.remote {
		s.add(o.place, spot{o.line, o.field, written, "kustomization"}, Medium)
		return
	}
	s.add(o.place.optional("nothing that it is built from names "+o.name), spot{o.line, o.field, written, "kustomization"}, Medium)
}
