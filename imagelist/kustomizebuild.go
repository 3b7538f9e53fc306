//lint:file-ignore SA1019 kustomizations in the field use the deprecated fields

package imagelist

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	k8syaml "sigs.k8s.io/yaml"
)

// The limits of one kustomization's build.
const (
	maxKustomizeFiles = 5_000
	maxKustomizeBytes = 32 << 20
	maxKustomizeParts = 500 // ways from the kustomization to a file
)

// A kustomizeBuild is one kustomization that kustomize itself builds, from
// copies of the files in memory: no plugin runs, and nothing is fetched.
type kustomizeBuild struct {
	s      *scanner
	disk   filesys.FileSystem
	files  map[string]bool         // that were copied
	named  map[string]bool         // that a kustomization names, and the kustomizations
	charts map[*yaml.Node][]string // the templates of each entry of helmCharts that was rendered
	bytes  int
	ok     bool // every file that it names is there
}

// pathFields are the fields of a kustomization that hold paths, or documents
// in their place.
var pathFields = []string{"resources", "bases", "components", "transformers", "generators", "validators", "crds", "configurations",
	"patchesStrategicMerge", "patches", "patchesJson6902", "replacements", "configMapGenerator", "secretGenerator", "openapi"}

// buildAll builds the kustomizations that no other uses, and takes the images
// of the files that belong to them from the objects built. A kustomization
// with parts elsewhere is left to the pass over its files, whose gap is told.
func (b *kustomizer) buildAll(top []*kustomization) {
	used, names := map[string]bool{}, map[string]bool{}
	var made []Finding
	var open []Gap
	unbuilt := map[string]bool{} // directories and files
	inflated := map[*yaml.Node][]string{}
	for _, k := range top {
		kb := kustomizeBuild{s: b.s, disk: filesys.MakeFsInMemory(), files: map[string]bool{}, named: map[string]bool{}, charts: map[*yaml.Node][]string{}, ok: true}
		if kb.copy(b, k, 0); !kb.ok || b.builds > maxKustomizeParts {
			b.parts(k, unbuilt)
			continue
		}
		found, gaps, err := kb.build(k)
		if err != nil {
			b.s.addGap(brokenKustomization, Gap{Subject: k.place.file, File: k.place.file, Object: "Kustomization", Reason: "cannot be built: " + firstLine(err)})
			b.parts(k, unbuilt)
			continue
		}
		for name := range kb.named {
			used[name] = true
		}
		maps.Copy(inflated, kb.charts)
		made, open = append(made, found...), append(open, gaps...)
	}
	b.useCharts(used, unbuilt, inflated)
	for name := range used {
		if unbuilt[name] || unbuilt[path.Dir(name)] {
			delete(used, name) // its own text counts, too
		}
	}
	for _, f := range made {
		names[f.Reference.String()] = true
	}
	b.s.keepBuilt(used, names, made, open)
}

// parts puts into all the directory of k, and its sources.
func (b *kustomizer) parts(k *kustomization, all map[string]bool) {
	for _, name := range append([]string{path.Dir(k.place.file)}, k.from...) {
		if inner := b.at[name]; !all[name] && inner != nil && inner != k {
			all[name] = true
			b.parts(inner, all)
		}
		all[name] = true
	}
}

// keepBuilt drops the findings of the files that were built where the objects
// built do not name them, and adds those that the files do not show.
func (s *scanner) keepBuilt(used, names map[string]bool, made []Finding, open []Gap) {
	shown := map[string]bool{}
	var kept []Finding
	for _, f := range s.res.Found {
		if used[f.File] && !names[f.Reference.String()] && f.Confidence.Mirrored() {
			f.Reason = "the kustomization puts another image in its place"
			s.res.Rejected = append(s.res.Rejected, f)
			continue
		}
		shown[f.Reference.String()] = shown[f.Reference.String()] || f.Confidence.Mirrored()
		kept = append(kept, f)
	}
	for _, f := range made {
		if !shown[f.Reference.String()] {
			kept = append(kept, f)
		}
	}
	s.res.Found = kept
	s.res.Gaps = slices.DeleteFunc(s.res.Gaps, func(g Gap) bool {
		return used[g.File] && g.Rule == placeholderGap.rule && !slices.ContainsFunc(open, func(o Gap) bool { return o.Text == g.Text })
	})
}

// copy copies the directory of k, and its sources. Entries that are
// not there, which kustomize would fetch, end it.
func (kb *kustomizeBuild) copy(b *kustomizer, k *kustomization, depth int) {
	dir := path.Dir(k.place.file)
	if depth > maxDepth || k.node == nil || len(items(get(k.node, "helmCharts"))) > len(k.charts) || !kb.local(dir, k.node) {
		kb.ok = false
		return
	}
	kb.named[k.place.file] = true
	for _, name := range append([]string{dir}, kb.names(dir, k.node)...) {
		kb.add(name)
		inner := b.at[name]
		if inner == nil {
			kb.named[name] = true
		}
		if inner != nil && kb.ok && !kb.named[inner.place.file] { // once, however many ways lead there
			kb.copy(b, inner, depth+1)
		}
	}
	if kb.ok {
		kb.inflate(k)
	}
}

// names are the files and directories that a kustomization names.
func (kb *kustomizeBuild) names(dir string, n *yaml.Node) (out []string) {
	for _, key := range pathFields {
		for _, text := range scalars(get(n, key)) {
			if _, after, ok := strings.Cut(text, "="); ok {
				text = after // key=file of a generator
			}
			if name := path.Join(dir, text); fs.ValidPath(name) && !strings.Contains(text, "\n") && kb.s.exists(name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// local reports whether no entry of a kustomization is one that kustomize would
// fetch: it takes any resource that is not there for a repository, and any URL
// for a file.
func (kb *kustomizeBuild) local(dir string, n *yaml.Node) bool {
	for _, key := range pathFields {
		for _, text := range scalars(get(n, key)) {
			if strings.Contains(text, "://") || strings.HasPrefix(text, "git@") {
				return false
			}
		}
	}
	for _, key := range []string{"resources", "bases", "components", "transformers", "generators", "validators"} {
		for _, it := range items(get(n, key)) {
			if isScalar(it) && !strings.Contains(it.Value, "\n") && !kb.s.exists(path.Join(dir, it.Value)) {
				return false
			}
		}
	}
	return true
}

// scalars are all strings below n.
func scalars(n *yaml.Node) (out []string) {
	if isScalar(n) {
		return []string{n.Value}
	}
	for _, e := range entries(n) {
		out = append(out, scalars(e.value)...)
	}
	for _, it := range items(n) {
		out = append(out, scalars(it)...)
	}
	return out
}

// add copies a file, or all files below a directory.
func (kb *kustomizeBuild) add(root string) {
	err := fs.WalkDir(kb.s.fsys, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !kb.ok {
			return fs.SkipAll
		}
		if d.IsDir() && (isRegistryTree(name) || isChart(kb.s.fsys, name)) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || kb.files[name] {
			return nil
		}
		data, err := readLimited(kb.s.fsys, name, maxDocument)
		kb.bytes += len(data)
		if err != nil || len(kb.files) > maxKustomizeFiles || kb.bytes > maxKustomizeBytes || kb.elsewhere(data) {
			kb.ok = false
			return fs.SkipAll
		}
		kb.files[name] = true
		if kustomizationFile(name) {
			data = modern(data)
		}
		return kb.disk.WriteFile("/"+name, data)
	})
	kb.ok = kb.ok && err == nil
}

// modern writes a kustomization without its deprecated fields, of which
// kustomize would warn on stderr.
func modern(data []byte) []byte {
	var k types.Kustomization
	if k.Unmarshal(data) != nil {
		return data // kustomize says why
	}
	k.FixKustomization()
	k.Patches = append(k.Patches, k.PatchesJson6902...)
	for _, p := range k.PatchesStrategicMerge {
		if text := string(p); strings.Contains(text, "\n") {
			k.Patches = append(k.Patches, types.Patch{Patch: text})
		} else {
			k.Patches = append(k.Patches, types.Patch{Path: text})
		}
	}
	if len(k.CommonLabels) > 0 {
		k.Labels = append(k.Labels, types.Label{Pairs: k.CommonLabels, IncludeSelectors: true})
	}
	k.PatchesJson6902, k.PatchesStrategicMerge, k.CommonLabels = nil, nil, nil
	out, err := k8syaml.Marshal(k)
	if err != nil {
		return data
	}
	return out
}

// elsewhere reports whether a file is the configuration of a transformer that
// may name a URL for kustomize to fetch.
func (kb *kustomizeBuild) elsewhere(data []byte) bool {
	text := string(data)
	return strings.Contains(text, "apiVersion: builtin") && strings.Contains(text, "://")
}

// build runs kustomize and scans the objects that come out.
func (kb *kustomizeBuild) build(k *kustomization) (found []Finding, gaps []Gap, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kustomize: %v", r)
		}
	}()
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions = types.LoadRestrictionsNone // nothing but the copies is there
	made, err := krusty.MakeKustomizer(o).Run(kb.disk, "/"+path.Dir(k.place.file))
	if err != nil {
		return nil, nil, err
	}
	text, err := made.AsYaml()
	if err != nil {
		return nil, nil, err
	}
	v := newScanner(kb.s.ctx, kb.s.o)
	v.o.Lenient, v.rules.fields = true, kb.s.rules.fields
	docs, _ := documents(text)
	for _, d := range docs {
		v.document(place{file: k.place.file, podSpecsOnly: k.place.podSpecsOnly, limit: k.place.limit, rendered: true}, d)
	}
	for _, f := range v.res.Found {
		f.Line, f.Rendered = 1, 0
		found = append(found, f)
	}
	return found, v.res.Gaps, nil
}
