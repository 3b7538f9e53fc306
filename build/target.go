package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// A target is the image for one platform while it is built.
type target struct {
	b        *builder
	platform ocispec.Platform
	base     *store.Image // nil for scratch
	file     *kubefile.File
	steps    []step

	partial     bool // something could not be read, so what is missing is no fault
	unknownBase bool // so is FROM

	prefix string // of what the current step prints

	pending []*pending    // layers on top of layers that are being written
	writing chan struct{} // has an element for each of them

	config store.Config
	layers []store.Layer    // all, lowest first
	added  []digest.Digest  // those of this Kubefile
	below  []*tree.Document // registry layers of the base
	draft  *draft           // of the registry layer, while the blobs are fetched
}

// A step adds a layer, or more than one.
type step interface {
	run(ctx context.Context, t *target) error
}

// plan does for every platform all that can fail without writing: FROM,
// variables, sources. The faults of all platforms, and those of the Kubefile's
// text, are reported together.
func (b *builder) plan(ctx context.Context) ([]*target, error) {
	var targets []*target
	errs := []error{b.text}
	for _, p := range b.o.Platforms {
		t := &target{b: b, platform: p}
		if err := t.plan(ctx); err != nil {
			errs = append(errs, err)
		}
		targets = append(targets, t)
		b.result.Images = append(b.result.Images, Image{Platform: p})
	}
	return targets, unique(errs)
}

// unique joins errors in the order of their lines, leaving out what another
// platform said already.
func unique(errs []error) error {
	seen := map[string]bool{}
	var out []error
	var add func(err error, incomplete bool)
	add = func(err error, incomplete bool) {
		for _, e := range flat(err) {
			if e == nil {
				continue
			}
			if many, ok := e.(incompleteError); ok { // each of its lines is one
				add(many.error, true)
				continue
			}
			if seen[e.Error()] {
				continue
			}
			seen[e.Error()] = true
			if incomplete {
				e = incompleteError{e}
			}
			out = append(out, e)
		}
	}
	for _, err := range errs {
		add(err, false)
	}
	slices.SortStableFunc(out, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return errors.Join(out...)
}

// lineOf returns the line of the Kubefile that err is about, or 0.
func lineOf(err error) int {
	var e *kubefile.Error
	if errors.As(err, &e) {
		return e.Line
	}
	return 0
}

// isJoin tells an error of errors.Join from one of fmt.Errorf with several %w,
// whose text is more than its parts.
func isJoin(err error, parts []error) bool { return err.Error() == errors.Join(parts...).Error() }

func (t *target) plan(ctx context.Context) error {
	vars := parser.Vars{BuildArgs: t.b.o.BuildArgs, Platform: t.platform}
	t.partial = t.b.text != nil
	fromErr := t.planBase(ctx, vars)
	vars.BaseEnv, vars.BaseArgs = t.config.Env, t.config.Args.Parent
	var err error
	t.file, err = parser.Expand(t.b.file, vars)
	for _, w := range t.file.Warnings {
		t.b.warn(w.Error())
	}
	err = t.readable(err)
	return errors.Join(fromErr, err, t.planSteps(ctx))
}

// planBase finds FROM and begins the config with it. Without, the rest is
// judged as far as it does not depend on it.
func (t *target) planBase(ctx context.Context, vars parser.Vars) error {
	from, err := parser.ExpandFrom(t.b.file, vars)
	if err == nil {
		t.base, err = t.findBase(ctx, from)
	}
	missing := err
	if err := t.inherit(); err != nil {
		return t.fault(from, err.Error(), "", err)
	}
	if missing == nil {
		return nil
	}
	t.unknownBase, t.partial = true, true
	switch {
	case from == nil:
		return t.fresh(missing)
	case t.b.checking:
		t.b.warn(missing.Error())
		return nil
	case errors.Is(missing, errUnasked):
		return nil
	}
	t.b.failing = true
	return missing
}

// fresh leaves out what is said about a line whose text has a fault already,
// and about a FROM that such a line may be.
func (t *target) fresh(err error) error {
	if t.b.text == nil {
		return err
	}
	said := map[int]bool{0: true}
	for _, e := range flat(t.b.text) {
		said[lineOf(e)] = true
	}
	return errors.Join(slices.DeleteFunc(flat(err), func(e error) bool { return said[lineOf(e)] })...)
}

// unknownVariables tells whether the base, or an instruction that cannot be
// read, could have set a variable.
func (t *target) unknownVariables() bool {
	return t.unknownBase || slices.ContainsFunc(flat(t.b.text), func(err error) bool {
		var e *kubefile.Error
		return errors.As(err, &e) && slices.Contains([]string{"", "FROM", "ARG", "ENV"}, e.Instruction)
	})
}

// readable leaves the instructions out that have one of the faults, so that
// those of the others are found, too. It returns what is a fault for certain.
func (t *target) readable(faults error) error {
	if faults == nil {
		return nil
	}
	faults, unknown := t.fresh(faults), t.unknownVariables()
	bad := map[int]bool{}
	var errs []error
	for _, err := range flat(faults) {
		bad[lineOf(err)] = true
		if err != nil && !(unknown && errors.Is(err, kubefile.ErrUnset)) {
			errs = append(errs, err)
		}
	}
	t.file.Instructions = slices.DeleteFunc(t.file.Instructions, func(in kubefile.Instruction) bool { return bad[in.Line()] })
	t.partial = true
	t.b.failing = t.b.failing || len(errs) > 0
	return errors.Join(errs...)
}

// planSteps turns the instructions into steps and into the config. All faults
// are reported.
func (t *target) planSteps(ctx context.Context) error {
	var errs []error
	add := func(st step, err error) {
		if err != nil {
			errs = append(errs, err)
		}
		if st != nil {
			t.steps = append(t.steps, st)
		}
	}
	for _, in := range t.file.Instructions {
		switch in := in.(type) {
		case *kubefile.Copy:
			add(t.planCopy(ctx, in))
		case *kubefile.Run:
			add(t.planRun(in))
		case *kubefile.App:
			add(t.planApp(ctx, in))
		default:
			errs = append(errs, t.configure(in))
		}
	}
	t.finishConfig()
	if err := errors.Join(errs...); err == nil && !t.b.checking && !t.b.failing {
		return nil // what is wrong in the sources the steps themselves see
	}
	return errors.Join(append(errs, t.look(t.steps))...)
}

// configure takes what an instruction says about the image as a whole.
func (t *target) configure(in kubefile.Instruction) error {
	c := &t.config
	switch in := in.(type) {
	case *kubefile.Arg:
		for _, p := range in.Pairs {
			if p.Set {
				c.Args.Current[p.Name] = p.Value
			}
		}
	case *kubefile.Env:
		// The step that follows must see it, those before must not.
		t.steps = append(t.steps, envStep{in})
	case *kubefile.Label:
		for _, p := range in.Pairs {
			c.Labels[p.Name] = p.Value
		}
	case *kubefile.Maintainer:
		c.Maintainer = in.Name
	case *kubefile.Cmd:
		c.Cmd.Current = append(c.Cmd.Current, in.Commands...)
	case *kubefile.KubeVersion:
		c.Labels[labelKubeVersion] = in.Range
	}
	return t.configureApp(in)
}

// An envStep is ENV.
type envStep struct{ in *kubefile.Env }

func (st envStep) run(_ context.Context, t *target) error {
	for _, p := range st.in.Pairs {
		t.config.Env[p.Name] = p.Value
	}
	return nil
}

// assemble runs the steps, each of which adds its layer.
func (t *target) assemble(ctx context.Context) error {
	n, total := 0, 0
	for _, st := range t.steps {
		if st, ok := st.(interface{ title() string }); ok && st.title() != "" {
			total++
		}
	}
	for i, st := range t.steps {
		if ctx.Err() != nil {
			break
		}
		if st, ok := st.(interface{ title() string }); ok {
			n++
			t.prefix = fmt.Sprintf("[%s %d/%d] ", platform.String(t.platform), n, total)
			t.b.step(t.prefix + st.title())
		}
		if err := st.run(ctx, t); err != nil {
			return unique([]error{t.settle(), err, t.look(t.steps[i+1:])})
		}
	}
	if err := cmp.Or(t.settle(), ctx.Err()); err != nil {
		return err
	}
	t.finishApps()
	maps.Copy(t.config.Labels, t.b.o.Labels)
	return nil
}

// push puts a layer on top.
func (t *target) push(l store.Layer, c store.ConfigLayer) {
	c.ID, c.Size = l.ID, l.Size
	t.layers = append(t.layers, l)
	t.added = append(t.added, l.ID)
	t.config.Layers = append(t.config.Layers, c)
}

// ids returns the layers so far, lowest first.
func (t *target) ids() []digest.Digest {
	out := make([]digest.Digest, len(t.layers))
	for i, l := range t.layers {
		out[i] = l.ID
	}
	return out
}

// isDir reports whether the rootfs so far has dest as a directory: Dockerfile's
// rule for COPY wants to know.
func (t *target) isDir(dest string) bool {
	if !t.file.DockerCopy {
		return false
	}
	name := strings.TrimPrefix(path.Clean("/"+dest), "/")
	if name == "" {
		return true
	}
	root, err := t.b.s.Rootfs(t.ids())
	if err != nil {
		return false
	}
	defer root.Close()
	fi, err := root.Stat(name)
	return err == nil && fi.IsDir()
}

// fault makes an error about an instruction.
func (t *target) fault(in kubefile.Instruction, msg, fix string, err error) error {
	return &kubefile.Error{File: t.b.file.Name, Line: in.Line(), Instruction: in.Keyword(), Msg: msg, Fix: fix, Err: err}
}

// faults makes an error about an instruction of each that is joined in err.
func (t *target) faults(in kubefile.Instruction, err error) error {
	var errs []error
	for _, e := range flat(err) {
		errs = append(errs, t.fault(in, e.Error(), "", e))
	}
	return errors.Join(errs...)
}

// flat returns the errors that errors.Join has joined in err.
func flat(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok || !isJoin(err, many.Unwrap()) {
		return []error{err}
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, flat(e)...)
	}
	return out
}

func (t *target) warn(in kubefile.Instruction, msg string) {
	t.b.warn((&kubefile.Error{File: t.b.file.Name, Line: in.Line(), Instruction: in.Keyword(), Msg: msg}).Error())
}

func (st *copyStep) title() string { return redacted(st.in.Keyword() + " " + st.in.Text()) }
