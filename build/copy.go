package build

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
)

// An input is one source of COPY, found.
type input struct {
	kubefile.Source
	root   *os.Root // where path lies; nil for a heredoc
	path   string
	info   fs.FileInfo
	data   []byte // of a heredoc
	remote bool   // it was fetched: the context's ignore file does not apply
}

// A copyStep is COPY or ADD.
type copyStep struct {
	in     *kubefile.Copy
	inputs []input
}

func (st *copyStep) title() string { return redacted(st.in.Keyword() + " " + st.in.Text()) }

// planCopy finds the sources of in. All that are missing are reported.
func (pb *platformBuild) planCopy(ctx context.Context, in *kubefile.Copy) (step, error) {
	st := &copyStep{in: in}
	var errs []error
	if _, err := st.exclude(); err != nil {
		errs = append(errs, pb.fault(in, "--exclude: "+err.Error(), "", err))
	}
	heredocs := in.Heredocs
	for _, src := range in.Sources {
		var found []input
		var err error
		switch {
		case strings.HasPrefix(src, "<<") && len(heredocs) > 0:
			h := heredocs[0]
			heredocs = heredocs[1:]
			found = []input{{Source: kubefile.Source{Path: src, Name: h.Name, Inline: true}, data: []byte(h.Body())}}
		case isGit(src), kubefile.IsURL(src), kubefile.IsChart(src):
			found, err = pb.b.fetch(ctx, src, in)
		default:
			found, err = pb.b.local(src)
		}
		if err != nil {
			errs = append(errs, pb.fault(in, fmt.Sprintf("%s: %v", redacted(src), err), fixFor(err), err))
		}
		st.inputs = append(st.inputs, found...)
	}
	for i := range st.inputs {
		st.inputs[i].Alone = st.inputs[i].Alone || st.inputs[i].Inline
		st.inputs[i].Alone = st.inputs[i].Alone && len(in.Sources) == 1
		st.remark(pb, st.inputs[i])
	}
	return st, joinFaults(errs...)
}

// look reports the sources of the steps that cannot be copied.
func (pb *platformBuild) look(steps []step) error {
	var errs []error
	for _, s := range steps {
		st, ok := s.(*copyStep)
		if !ok {
			continue
		}
		exclude, err := st.exclude()
		if err != nil {
			continue // planCopy said so
		}
		for _, in := range st.inputs {
			if in.root == nil {
				continue
			}
			w := &walker{chmod: -1, warn: func(string) {}, exclude: exclude, look: true}
			if !in.remote {
				w.ctx = pb.b.ctx
			}
			w.add(in.root, in.path, in.info, ".", true)
			if err := joinFaults(w.errs...); err != nil {
				errs = append(errs, pb.faults(st.in, err))
			}
		}
	}
	return joinFaults(errs...)
}

// fixFor returns the way out for a source that could not be used.
func fixFor(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "sources are looked for in the build context"
	case errors.Is(err, errEscape):
		return "copy what it points at into the context"
	}
	return ""
}

// local finds a source of the build context.
func (b *builder) local(src string) ([]input, error) {
	if scheme, _, ok := strings.Cut(src, "://"); ok {
		return nil, fmt.Errorf("%s:// is nothing that can be copied: write a path in the build context, an http(s) URL, a git repository, or a chart as oci:// or repo+https://", scheme)
	}
	names, literal, err := b.ctx.glob(src)
	if err != nil {
		return nil, plainMissing(err)
	}
	var out []input
	for _, name := range names {
		skip, prune, err := b.ctx.ignored(name)
		if err != nil {
			return nil, err
		}
		stat := b.ctx.root.Lstat // links that a pattern matches stay links
		if literal {
			stat = b.ctx.root.Stat
		}
		fi, err := stat(name)
		if err != nil && !skip {
			return nil, plainMissing(plain(err))
		}
		if skip && !prune && err == nil && fi.IsDir() {
			if skip, err = b.ctx.included(name); err != nil {
				return nil, err
			}
			skip = !skip
		}
		if skip {
			if literal {
				return nil, fmt.Errorf("%s excludes it", b.ctx.ignoreName)
			}
			continue
		}
		in := input{Source: kubefile.Source{Path: name, Name: path.Base(name), Dir: fi.IsDir(), Alone: literal}, root: b.ctx.root, path: name, info: fi}
		if literal {
			in.Name = kubefile.SourceName(src)
		}
		out = append(out, in)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s excludes all that it matches", b.ctx.ignoreName)
	}
	return out, nil
}

// plainMissing says in a user's words that a source is not there.
func plainMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missingError{err}
	}
	return err
}

type missingError struct{ error }

func (missingError) Error() string   { return "not found" }
func (e missingError) Unwrap() error { return e.error }

// run writes the layer of a COPY.
func (st *copyStep) run(ctx context.Context, pb *platformBuild) error {
	below := st.in.Chown != "" || pb.file.DockerCopy // it depends on the rootfs below
	if below {
		if err := pb.settle(); err != nil {
			return err
		}
	}
	entries, archives, err := st.entries(pb)
	if err != nil {
		return pb.faults(st.in, err)
	}
	if len(entries)+len(archives) == 0 {
		pb.warn(st.in, "it copies nothing")
		return nil
	}
	err = pb.begin(ctx, st.in, image.ConfigLayer{Type: "COPY", Value: redacted(st.in.Text())}, func() (image.Layer, error) {
		return st.layer(ctx, pb, entries, archives)
	})
	if err == nil && (below || len(archives) > 0) { // unarchive changes the builder without a lock
		err = pb.settle()
	}
	return err
}

// layer writes the layer of entries and of the archives' files. The cache knows
// the layer of an equal ADD by the archives' own content.
func (st *copyStep) layer(ctx context.Context, pb *platformBuild, entries, archives []entry) (image.Layer, error) {
	b := pb.b
	if len(archives) == 0 {
		return pb.writeLayer(ctx, st.in, entries)
	}
	for _, list := range [][]entry{entries, archives} {
		b.recall(list)
		if err := b.hash(ctx, list); err != nil {
			return image.Layer{}, fmt.Errorf("hash the files: %w", err)
		}
	}
	key := cacheKey("add", b.entriesKey(entries), b.entriesKey(archives), archives[0].into, st.in.Chmod)
	if r, ok := b.lookup(ctx, key); ok {
		return r.Layer, nil
	}
	w, err := st.walker(pb)
	if err != nil {
		return image.Layer{}, err
	}
	for i := range archives {
		unpacked, err := b.unarchive(ctx, &archives[i], w)
		if err != nil {
			return image.Layer{}, err // it names the archive
		}
		entries = append(entries, unpacked...)
	}
	if entries, err = arrange(entries); err != nil {
		return image.Layer{}, err
	}
	layer, err := pb.writeLayer(ctx, st.in, entries)
	if err == nil {
		b.keep(key, stepRecord{Layer: layer})
	}
	return layer, err
}

// entries returns the entries of the layer, and the archives that ADD unpacks
// into it. All faults of the sources are reported.
func (st *copyStep) entries(pb *platformBuild) (entries, archives []entry, err error) {
	var errs []error
	for _, in := range st.inputs {
		w, err := st.walker(pb)
		if err != nil {
			return nil, nil, err
		}
		unpack, err := st.unpacks(in)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", in.path, err))
		case unpack:
			archives = append(archives, st.archive(in, w))
		default:
			st.collect(pb, in, w)
			errs = append(errs, w.errs...)
			if entries == nil {
				entries = w.entries
			} else {
				entries = append(entries, w.entries...)
			}
		}
	}
	if err := joinFaults(errs...); err != nil {
		return nil, nil, err
	}
	entries, err = arrange(entries)
	return entries, archives, err
}

// archive returns the entry of an archive that is to be unpacked.
func (st *copyStep) archive(in input, w *walker) entry {
	return entry{
		name: in.path, typ: tar.TypeReg, mode: mode(in.info.Mode()), uid: w.uid, gid: w.gid, size: in.info.Size(),
		root: in.root, path: in.path, stat: statOf(in.info), into: path.Join(".", path.Clean("/" + st.in.Dest)[1:]),
	}
}

// collect adds the entries of one source to w.
func (st *copyStep) collect(pb *platformBuild, in input, w *walker) {
	place := st.in.Target(in.Source, pb.file.DockerCopy, pb.isDir(st.in.Dest))
	if in.root == nil {
		w.put(&w.found, entry{name: place.Path, typ: tar.TypeReg, size: int64(len(in.data)), data: in.data}, 0)
		w.tell()
	} else {
		if !in.remote {
			w.ctx = pb.b.ctx
		}
		w.add(in.root, in.path, in.info, place.Path, place.Contents)
	}
	directories := []string{"manifests", "charts", "bin", "etc", "scripts", "plugins"}
	if pb.file.DockerCopy && !in.Dir && !in.Inline && slices.Contains(directories, place.Path) {
		pb.warn(st.in, fmt.Sprintf("it makes a file of the name %[1]s: write %[1]s/ for the directory", place.Path))
	}
}

// unpacks reports whether in is an archive of the context that ADD unpacks.
func (st *copyStep) unpacks(in input) (bool, error) {
	if !st.in.Add || in.remote || in.root == nil || !in.info.Mode().IsRegular() {
		return false, nil
	}
	return archived(in.root, in.path)
}

// remark warns where Dockerfile's rule, which Kubefiles for sealer 0.9 expect,
// would give another result: a file's new name, or a directory's contents.
func (st *copyStep) remark(pb *platformBuild, in input) {
	place := st.in.Target(in.Source, false, false)
	if pb.file.DockerCopy || in.Inline || !in.Alone || place.Contents || strings.HasSuffix(st.in.Dest, "/") {
		return
	}
	const directive = "with \"# copy=docker\" at the top of the file"
	ext := path.Ext(in.Name)
	switch {
	case in.Dir && place.Path == in.Name && (in.Name == "rootfs" || in.Name == pb.platform.Architecture):
		pb.warn(st.in, fmt.Sprintf("it makes %s/, as a directory of the rootfs: write COPY %s/* . for what it holds, which %s it would be", place.Path, in.Name, directive))
	case !in.Dir && ext != "" && path.Ext(st.in.Dest) == ext && path.Base(place.Path) != path.Base(st.in.Dest):
		pb.warn(st.in, fmt.Sprintf("it makes %s: DEST is a directory; %s it would be the file's new name", place.Path, directive))
	}
}

// walker returns a collector of entries with the instruction's flags.
func (st *copyStep) walker(pb *platformBuild) (*walker, error) {
	w := &walker{chmod: -1, warn: func(msg string) { pb.warn(st.in, msg) }}
	var err error
	if st.in.Chmod != "" {
		if w.chmod, err = strconv.ParseInt(st.in.Chmod, 8, 32); err != nil {
			return nil, err
		}
	}
	if w.uid, w.gid, err = pb.owner(st.in.Chown); err != nil {
		return nil, err
	}
	w.exclude, err = st.exclude()
	return w, err
}

// exclude returns the matcher of --exclude; nil excludes nothing.
func (st *copyStep) exclude() (func(rel string) (bool, error), error) {
	if len(st.in.Exclude) == 0 {
		return nil, nil
	}
	m, err := matcher(st.in.Exclude)
	if err != nil {
		return nil, err
	}
	return m.MatchesOrParentMatches, nil
}
