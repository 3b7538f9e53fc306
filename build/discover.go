package build

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// lists reads the files beside the rootfs that steer discovery.
func (b *builder) lists() (o imagelist.Options, err error) {
	var errs []error
	o, err = Lists(b.o)
	errs = append(errs, err)
	if b.ctx.secret != nil && b.o.Scan != imagelist.ModeOff {
		content, err := b.ctx.readSmall(authListName)
		errs = append(errs, err)
		o.AuthLists = append(o.AuthLists, imagelist.List{Name: authListName, Content: content})
	}
	switch rules, err := b.ctx.readSmall(rulesName); {
	case err == nil:
		o.Rules = rules
	case !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, err)
	}
	return o, errors.Join(errs...)
}

// discover finds the images that the layers of this Kubefile make a cluster
// pull.
func (t *target) discover(ctx context.Context, o imagelist.Options) (*imagelist.Result, error) {
	t.b.step(fmt.Sprintf("[%s] find images", platform.String(t.platform)))
	o.PrivateRegistry = t.config.Registry.Name
	o.KubeRange = t.config.Labels[labelKubeVersion]
	if err := t.kubeVersion(&o); err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	found, warnings, err := t.scan(ctx, o)
	for _, w := range warnings {
		t.b.warn(w)
	}
	if found != nil {
		for _, w := range found.Warnings {
			t.b.warn(w)
		}
		for _, g := range found.Unresolved {
			t.b.warn(gapWarning(g))
		}
	}
	return found, err
}

// gapWarning says which image of the cluster is not in the files.
func gapWarning(g imagelist.Gap) string {
	at := g.File
	if g.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, g.Line)
	}
	for _, s := range []string{g.Object, g.Field, g.Text} {
		if s != "" {
			at += ": " + s
		}
	}
	return at + ": an image is not known: " + g.Reason
}

// kubeVersion takes the version that charts are rendered for from the Metadata
// of the whole rootfs, the base's too, unless the user names one.
func (t *target) kubeVersion(o *imagelist.Options) error {
	if o.KubeVersion != "" {
		return nil
	}
	root, err := t.b.s.Rootfs(t.ids())
	if err != nil {
		return err
	}
	o.KubeVersion = imagelist.MetadataVersion(root)
	return root.Close()
}

// A scanRecord is what the cache knows of a scan.
type scanRecord struct {
	Found    *imagelist.Result
	Warnings []string // of the review
}

// scan reads the layers, or recalls what an earlier build found in equal ones.
// What it keeps holds no credentials.
func (t *target) scan(ctx context.Context, o imagelist.Options) (found *imagelist.Result, warnings []string, err error) {
	b := t.b
	// The lists with credentials are read every time: what the cache keeps, and
	// what its key is made of, has none.
	listed, listErr := imagelist.Scan(ctx, embed.FS{}, imagelist.Options{Mode: o.Mode, AuthLists: o.AuthLists, Lenient: o.Lenient})
	if listErr != nil {
		listed = &imagelist.Result{} // the scan reports it, with all other faults
	}
	plain := o
	plain.Logger, plain.AuthLists = nil, nil
	file := b.cacheFile("scans", cacheKey("scan", b.program(), t.added, plain, listed.Found))
	if listErr == nil && !b.o.NoCache {
		var r scanRecord
		if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &r) == nil && r.Found != nil {
			authorise(r.Found, listed)
			return r.Found, r.Warnings, nil
		}
	}
	root, err := b.s.Rootfs(t.added)
	if err != nil {
		return nil, nil, fmt.Errorf("find images: %w", err)
	}
	defer root.Close()
	facts, err := b.facts(ctx, t.added)
	if err != nil {
		return nil, nil, fmt.Errorf("find images: %w", err)
	}
	if warnings, err = review(root, facts.Suspects); err != nil {
		return nil, nil, err
	}
	o.Objects = map[string]bool{}
	for _, name := range facts.Objects {
		o.Objects[name] = true
	}
	found, err = imagelist.Scan(ctx, root, o)
	if err == nil {
		b.keepJSON(file, scanRecord{found, warnings})
	}
	return found, warnings, err
}

// authorise gives the findings that the lists with credentials made their
// credentials again.
func authorise(found, listed *imagelist.Result) {
	type place struct {
		reference ref.Reference
		file      string
		line      int
	}
	of := map[place]*imagelist.Credential{}
	for _, f := range listed.Found {
		of[place{f.Reference, f.File, f.Line}] = f.Credential
	}
	for i := range found.Found {
		f := &found.Found[i]
		f.Credential = of[place{f.Reference, f.File, f.Line}]
	}
}

// program tells one build of sealer from another, since another may find more.
func (b *builder) program() string {
	name, err := os.Executable()
	if err != nil {
		return b.o.Version
	}
	fi, err := os.Stat(name)
	if err != nil {
		return b.o.Version
	}
	return fmt.Sprintf("%s %d %d", b.o.Version, fi.Size(), fi.ModTime().UnixNano())
}

// requests turns what was found into what is mirrored, the private registry's
// own names last: they are satisfied by the others.
func (b *builder) requests(found *imagelist.Result) []mirror.Request {
	var out []mirror.Request
	for _, list := range [][]imagelist.Image{found.Mirror(b.o.IncludeOptional), found.Requirements()} {
		for _, im := range list {
			q := mirror.Request{Reference: im.Reference, Source: im.Source, Asked: asked(im.Findings)}
			if c := im.Credential; c != nil {
				q.Credential = &remote.Credential{Registry: c.Registry, Username: c.Username, Password: c.Password}
			}
			out = append(out, q)
		}
	}
	return out
}

// asked returns the places that ask for an image, each once.
func asked(list []imagelist.Finding) []string {
	var out []string
	for _, f := range list {
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// record writes into the config what became of every image that was found. What
// the base recorded stays, unless this build mirrored it again.
func (t *target) record(found *imagelist.Result, result *mirror.Result) {
	byRef := map[string]store.MirroredImage{}
	for _, im := range t.config.Images {
		byRef[im.Reference] = im
	}
	mirrored := map[string]*mirror.Image{}
	if result != nil {
		for i := range result.Images {
			mirrored[result.Images[i].Reference.String()] = &result.Images[i]
		}
	}
	for _, im := range found.Images() {
		entry := store.MirroredImage{Reference: im.Reference.String(), Found: provenance(im.Findings)}
		if im.Source != im.Reference {
			entry.Source = im.Source.String()
		}
		m := mirrored[entry.Reference]
		switch {
		case m == nil:
			entry.Missing = store.NotMirrored + string(im.Confidence)
		case m.Err != nil:
			entry.Missing = m.Err.Error()
		default:
			entry.Digest, entry.Size = m.Descriptor.Digest, m.Size
			for _, p := range m.Platforms {
				entry.Platforms = append(entry.Platforms, platform.String(p))
			}
		}
		if old, ok := byRef[entry.Reference]; ok && old.Missing == "" && entry.Missing != "" {
			continue // the base has it
		}
		byRef[entry.Reference] = entry
	}
	t.config.Images = nil
	for _, name := range sortedKeys(byRef) {
		t.config.Images = append(t.config.Images, byRef[name])
	}
}

func provenance(list []imagelist.Finding) []store.Provenance {
	var out []store.Provenance
	for _, f := range list {
		p := store.Provenance{File: f.File, Line: f.Line, Object: f.Object, Field: f.Field, Values: f.Values, Rule: f.Rule, Confidence: string(f.Confidence)}
		if f.Written != f.Reference.String() {
			p.Written = f.Written
		}
		out = append(out, p)
	}
	return out
}
