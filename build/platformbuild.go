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

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// A platformBuild is the image for one platform while it is built.
type platformBuild struct {
	b        *builder
	platform ocispec.Platform
	base     *store.Image // nil for scratch
	file     *kubefile.File
	steps    []step

	partial     bool // something could not be read: a missing declaration is no fault
	unknownBase bool // so is FROM

	prefix string // of the current step's output

	pending []*pending    // layers on top of layers that are being written
	writing chan struct{} // has an element for each of them

	config image.Config
	layers []image.Layer    // all, lowest first
	added  []digest.Digest  // those of this Kubefile
	below  []*tree.Document // registry layers of the base
	held   []*tree.Document // registry trees in files of the base
	draft  *draft           // of the registry layer, while the blobs are fetched
}

// A step adds a layer, or more than one.
type step interface {
	run(ctx context.Context, pb *platformBuild) error
}

// plan does, for every platform, everything that can fail without writing:
// FROM, variables, sources. It reports the faults of all platforms and of the
// Kubefile's text together.
func (b *builder) plan(ctx context.Context) ([]*platformBuild, error) {
	var builds []*platformBuild
	errs := []error{b.text}
	for _, p := range b.o.Platforms {
		pb := &platformBuild{b: b, platform: p}
		if err := pb.plan(ctx); err != nil {
			errs = append(errs, err)
		}
		builds = append(builds, pb)
		b.result.Images = append(b.result.Images, Image{Platform: p})
	}
	return builds, unique(errs)
}

func (pb *platformBuild) plan(ctx context.Context) error {
	vars := parser.Vars{BuildArgs: pb.b.o.BuildArgs, Platform: pb.platform}
	pb.partial = pb.b.text != nil
	fromErr := pb.planBase(ctx, vars)
	vars.BaseEnv, vars.BaseArgs = pb.config.Env, pb.config.Args.Parent
	var err error
	pb.file, err = parser.Expand(pb.b.file, vars)
	for _, w := range pb.file.Warnings {
		pb.b.warn(w.Error())
	}
	err = pb.readable(err)
	return joinFaults(fromErr, err, pb.planSteps(ctx))
}

// planBase finds FROM and begins the config with it. If the base is missing,
// planning goes on with everything that does not depend on it, so that other
// faults are reported too.
func (pb *platformBuild) planBase(ctx context.Context, vars parser.Vars) error {
	from, err := parser.ExpandFrom(pb.b.file, vars)
	if err == nil {
		pb.base, err = pb.findBase(ctx, from)
	}
	missing := err
	if err := pb.inherit(); err != nil {
		return pb.fault(from, err.Error(), "", err)
	}
	if missing == nil {
		return nil
	}
	pb.unknownBase, pb.partial = true, true
	switch {
	case from == nil:
		return pb.fresh(missing)
	case pb.b.checking && errors.Is(missing, errNotHere):
		pb.b.warn(missing.Error())
		return nil
	case errors.Is(missing, errUnasked):
		return nil
	}
	pb.b.failing = true
	return missing
}

// fresh drops errors about lines whose text has a fault already, and about a
// FROM that such a line may be.
func (pb *platformBuild) fresh(err error) error {
	if pb.b.text == nil {
		return err
	}
	said := map[int]bool{0: true}
	for _, e := range Faults(pb.b.text) {
		said[lineOf(e)] = true
	}
	return joinFaults(slices.DeleteFunc(Faults(err), func(e error) bool { return said[lineOf(e)] })...)
}

// unknownVariables tells whether the base, or an instruction that cannot be
// read, could have set a variable.
func (pb *platformBuild) unknownVariables() bool {
	return pb.unknownBase || slices.ContainsFunc(Faults(pb.b.text), func(err error) bool {
		var e *kubefile.Error
		return errors.As(err, &e) && slices.Contains([]string{"", "FROM", "ARG", "ENV"}, e.Instruction)
	})
}

// readable drops the instructions that have one of the faults, so that the
// faults of the others are found too. It returns the faults that are certain.
func (pb *platformBuild) readable(faults error) error {
	if faults == nil {
		return nil
	}
	faults, unknown := pb.fresh(faults), pb.unknownVariables()
	bad := map[int]bool{}
	var errs []error
	for _, err := range Faults(faults) {
		bad[lineOf(err)] = true
		if err != nil && !(unknown && errors.Is(err, kubefile.ErrUnset)) {
			errs = append(errs, err)
		}
	}
	pb.file.Instructions = slices.DeleteFunc(pb.file.Instructions, func(in kubefile.Instruction) bool { return bad[in.Line()] })
	pb.partial = true
	pb.b.failing = pb.b.failing || len(errs) > 0
	return joinFaults(errs...)
}

// planSteps turns the instructions into steps and into the config. All faults
// are reported.
func (pb *platformBuild) planSteps(ctx context.Context) error {
	var errs []error
	add := func(st step, err error) {
		if err != nil {
			errs = append(errs, err)
		}
		if st != nil {
			pb.steps = append(pb.steps, st)
		}
	}
	for _, in := range pb.file.Instructions {
		switch in := in.(type) {
		case *kubefile.Copy:
			add(pb.planCopy(ctx, in))
		case *kubefile.Run:
			add(pb.planRun(in))
		case *kubefile.App:
			add(pb.planApp(ctx, in))
		default:
			errs = append(errs, pb.configure(in))
		}
	}
	pb.finishConfig()
	if err := joinFaults(errs...); err == nil && !pb.b.checking && !pb.b.failing {
		return nil // the steps report faults of their sources when they run
	}
	return joinFaults(append(errs, pb.look(pb.steps))...)
}

// configure applies an instruction that concerns the image as a whole.
func (pb *platformBuild) configure(in kubefile.Instruction) error {
	c := &pb.config
	switch in := in.(type) {
	case *kubefile.Arg:
		for _, p := range in.Pairs {
			if p.Set {
				c.Args.Current[p.Name] = p.Value
			}
		}
	case *kubefile.Env:
		// Later steps must see the variable, earlier ones must not.
		pb.steps = append(pb.steps, envStep{in})
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
	return pb.configureApp(in)
}

// An envStep is ENV.
type envStep struct{ in *kubefile.Env }

func (st envStep) run(_ context.Context, pb *platformBuild) error {
	for _, p := range st.in.Pairs {
		pb.config.Env[p.Name] = p.Value
	}
	return nil
}

// assemble runs the steps, each of which adds its layer.
func (pb *platformBuild) assemble(ctx context.Context) error {
	n, total := 0, 0
	for _, st := range pb.steps {
		if st, ok := st.(interface{ title() string }); ok && st.title() != "" {
			total++
		}
	}
	for i, st := range pb.steps {
		if ctx.Err() != nil {
			break
		}
		if st, ok := st.(interface{ title() string }); ok {
			n++
			pb.prefix = fmt.Sprintf("[%s %d/%d] ", platform.String(pb.platform), n, total)
			pb.b.step(pb.prefix + st.title())
		}
		if err := st.run(ctx, pb); err != nil {
			return unique([]error{pb.settle(), err, pb.look(pb.steps[i+1:])})
		}
	}
	if err := cmp.Or(pb.settle(), ctx.Err()); err != nil {
		return err
	}
	pb.finishApps()
	maps.Copy(pb.config.Labels, pb.b.o.Labels)
	return nil
}

// push puts a layer on top.
func (pb *platformBuild) push(l image.Layer, c image.ConfigLayer) {
	c.ID, c.Size = l.ID, l.Size
	pb.layers = append(pb.layers, l)
	pb.added = append(pb.added, l.ID)
	pb.config.Layers = append(pb.config.Layers, c)
}

// ids returns the layers so far, lowest first.
func (pb *platformBuild) ids() []digest.Digest {
	out := make([]digest.Digest, len(pb.layers))
	for i, l := range pb.layers {
		out[i] = l.ID
	}
	return out
}

// isDir reports whether the rootfs so far has dest as a directory: Dockerfile's
// rule for COPY wants to know.
func (pb *platformBuild) isDir(dest string) bool {
	if !pb.file.DockerCopy {
		return false
	}
	name := strings.TrimPrefix(path.Clean("/"+dest), "/")
	if name == "" {
		return true
	}
	root, err := pb.b.s.Rootfs(pb.ids())
	if err != nil {
		return false
	}
	defer root.Close()
	fi, err := root.Stat(name)
	return err == nil && fi.IsDir()
}

// fault makes an error about an instruction.
func (pb *platformBuild) fault(in kubefile.Instruction, msg, fix string, err error) error {
	return &kubefile.Error{File: pb.b.file.Name, Line: in.Line(), Instruction: in.Keyword(), Msg: msg, Fix: fix, Err: err}
}

// faults makes an error about an instruction of each that is joined in err.
func (pb *platformBuild) faults(in kubefile.Instruction, err error) error {
	var errs []error
	for _, e := range Faults(err) {
		errs = append(errs, pb.fault(in, e.Error(), "", e))
	}
	return joinFaults(errs...)
}

func (pb *platformBuild) warn(in kubefile.Instruction, msg string) {
	pb.b.warn((&kubefile.Error{File: pb.b.file.Name, Line: in.Line(), Instruction: in.Keyword(), Msg: msg}).Error())
}
