package parser

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/shell"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
)

// Vars are the variables that a Kubefile starts with on one platform.
type Vars struct {
	BuildArgs map[string]string // --build-arg
	Platform  ocispec.Platform  // gives ARCH, OS, PLATFORM, VARIANT and the TARGET* names
	BaseEnv   map[string]string // ENV of the base
	BaseArgs  map[string]string // ARG of the base
}

// Predefined returns the variables that a platform gives to a Kubefile.
func Predefined(p ocispec.Platform) map[string]string {
	full := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		full += "/" + p.Variant
	}
	return map[string]string{
		"OS": p.OS, "ARCH": p.Architecture, "VARIANT": p.Variant, "PLATFORM": full,
		"TARGETOS": p.OS, "TARGETARCH": p.Architecture, "TARGETVARIANT": p.Variant, "TARGETPLATFORM": full,
	}
}

// Expand returns f with every variable replaced for one platform. f itself is
// not changed, and Expand is safe for concurrent use.
//
// An unset variable, and a word that becomes empty, are faults in FROM, COPY,
// ADD, APP, CNI, CSI, LAUNCH and KUBEVERSION, in the flags of RUN and in the
// name of APPCMDS and APPENV. In the values of ARG, ENV, LABEL and APPENV and
// in a heredoc an unset variable is empty, with a warning, as in a Dockerfile.
// The commands of CMD, CMDS and APPCMDS (for the cluster's shell) and of RUN
// (for the build's) are kept as written.
//
// All faults are returned, joined, each a *kubefile.Error.
func Expand(f *kubefile.File, vars Vars) (*kubefile.File, error) {
	e := newExpander(f, vars)
	out := &kubefile.File{Name: f.Name, DockerCopy: f.DockerCopy, Escape: f.Escape, Expanded: true}
	for _, in := range f.Instructions {
		e.in = in
		out.Instructions = append(out.Instructions, e.instruction(in))
	}
	for _, name := range slices.Sorted(maps.Keys(vars.BuildArgs)) {
		if !e.declared[name] {
			fix := "declare it with ARG " + name
			if s := kubefile.Suggest(name, slices.Sorted(maps.Keys(e.declared))); s != "" {
				fix = "did you mean " + s + "?"
			}
			e.warnings = append(e.warnings, &kubefile.Error{File: f.Name, Msg: fmt.Sprintf("build argument %s is not used", name), Fix: fix})
		}
	}
	out.Warnings = append(slices.Clone(f.Warnings), e.warnings...)
	faulty := map[int]bool{}
	for _, err := range e.errs {
		faulty[err.Line] = true
	}
	for _, err := range out.Faults() {
		if !faulty[err.Line] {
			e.errs = append(e.errs, err)
		}
	}
	slices.SortStableFunc(e.errs, func(a, b *kubefile.Error) int { return a.Line - b.Line })
	return out, kubefile.Join(e.errs)
}

// ExpandFrom returns FROM alone, expanded. It needs no base, so a build calls it
// to find the base.
func ExpandFrom(f *kubefile.File, vars Vars) (*kubefile.From, error) {
	e := newExpander(f, vars)
	for _, in := range f.Instructions {
		e.in = in
		switch in := e.instruction(in).(type) {
		case *kubefile.From:
			if len(e.errs) > 0 {
				return nil, e.errs[0]
			}
			if in.Image == "" {
				return nil, &kubefile.Error{File: f.Name, Line: in.Line(), Instruction: "FROM", Msg: "the image is empty", Fix: "FROM scratch or FROM IMAGE"}
			}
			return in, nil
		}
	}
	return nil, &kubefile.Error{File: f.Name, Msg: "the file has no FROM", Fix: "begin it with FROM scratch or FROM IMAGE"}
}

type expander struct {
	file     *kubefile.File
	lex      *shell.Lex // not safe for concurrent use, so one for each Expand
	vars     Vars
	predef   map[string]string
	env      map[string]string // set by ENV; hides arguments of the same name
	args     map[string]string
	declared map[string]bool
	in       kubefile.Instruction
	bytes    int // that all expansions have given so far
	errs     []*kubefile.Error
	warnings []*kubefile.Error
}

func newExpander(f *kubefile.File, vars Vars) *expander {
	escape := f.Escape
	if escape == 0 {
		escape = '\\'
	}
	e := &expander{
		file: f, lex: shell.NewLex(escape), vars: vars, predef: Predefined(vars.Platform),
		env: map[string]string{}, args: map[string]string{}, declared: map[string]bool{},
	}
	maps.Copy(e.env, vars.BaseEnv)
	for name, value := range vars.BaseArgs {
		if given, ok := vars.BuildArgs[name]; ok {
			value = given
		}
		e.args[name] = value
		e.declared[name] = true
	}
	return e
}

// Get implements shell.EnvGetter.
func (e *expander) Get(name string) (string, bool) {
	for _, m := range []map[string]string{e.env, e.args, e.predef} {
		if v, ok := m[name]; ok {
			return v, true
		}
	}
	return "", false
}

// Keys implements shell.EnvGetter.
func (e *expander) Keys() []string {
	all := map[string]bool{}
	for _, m := range []map[string]string{e.env, e.args, e.predef} {
		for k := range m {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (e *expander) fault(msg, fix string) *kubefile.Error {
	return &kubefile.Error{File: e.file.Name, Line: e.in.Line(), Instruction: e.in.Keyword(), Msg: msg, Fix: fix}
}

// reference is a variable without a default.
var reference = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// expand replaces the variables of one raw word and drops its quotes. missing
// lists the unset variables in the word that have no default.
func (e *expander) expand(raw string) (value string, missing []string, ok bool) {
	if e.bytes+e.most(raw) > maxExpanded {
		e.errs = append(e.errs, e.fault(fmt.Sprintf("%s: the variables of the file give more than %d MiB of text", clip(raw), maxExpanded>>20), "make the values shorter"))
		return "", nil, false
	}
	res, err := e.lex.ProcessWordWithMatches(raw, e)
	if err != nil {
		e.errs = append(e.errs, e.fault(fmt.Sprintf("%s: %s", clip(raw), lexFault(err)), "see the quotes and the ${...}"))
		return "", nil, false
	}
	for _, m := range reference.FindAllStringSubmatch(raw, -1) {
		name := m[1] + m[2]
		if _, un := res.Unmatched[name]; un && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if strings.Contains(raw, "$") {
		e.bytes += len(res.Result)
	}
	return res.Result, missing, true
}

// maxExpanded bounds the bytes that the expansions of one file give together:
// ten lines of values that repeat the one before multiply to gigabytes.
const maxExpanded = 16 << 20

// used is a variable in any form, and whether a pattern in it is replaced.
var used = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)(/?)`)

// most returns a bound of the bytes that the variables of raw give.
func (e *expander) most(raw string) int {
	n := 0
	for _, m := range used.FindAllStringSubmatch(raw, -1) {
		v, _ := e.Get(m[1])
		if m[2] == "" {
			n += len(v)
		} else {
			n += len(v) * len(raw) // each byte may be replaced by the rest of the word
		}
	}
	return n
}

// lexFault drops the word that the lexer's error repeats.
func lexFault(err error) string {
	msg := strings.ReplaceAll(err.Error(), "\n", `\n`)
	if strings.Contains(msg, "\uFFFD") || strings.Contains(msg, "missing '}'") {
		return "a } is missing"
	}
	if strings.Contains(msg, "looking for matching") {
		return "a quote is not closed"
	}
	if i := strings.LastIndex(msg, `": `); i >= 0 && strings.HasPrefix(msg, "failed to process") {
		return msg[i+3:]
	}
	return msg
}

// word expands a word that must not be empty.
func (e *expander) word(raw string) string {
	if raw == "" {
		return ""
	}
	v, missing, ok := e.expand(raw)
	switch {
	case !ok:
	case len(missing) > 0:
		fault := e.fault(fmt.Sprintf("%s is not set", strings.Join(missing, ", ")), e.unsetFix(missing[0]))
		fault.Err = kubefile.ErrUnset
		e.errs = append(e.errs, fault)
	case v == "":
		e.errs = append(e.errs, e.fault(fmt.Sprintf("%s is empty", clip(raw)), "give the variable a value, with --build-arg or a default"))
	}
	return v
}

func (e *expander) unsetFix(name string) string {
	if s := kubefile.Suggest(name, e.Keys()); s != "" {
		return "did you mean " + s + "?"
	}
	if e.declared[name] {
		return "give --build-arg " + name + "=VALUE, or a default: ARG " + name + "=VALUE"
	}
	return "declare it above with ARG " + name + "=VALUE, or write ${" + name + ":-VALUE}"
}

func (e *expander) words(raw []string) []string {
	var out []string
	for _, w := range raw {
		out = append(out, e.word(w))
	}
	return out
}

// value expands a value that may be empty.
func (e *expander) value(raw string) string {
	v, missing, _ := e.expand(raw)
	if len(missing) > 0 {
		e.warnings = append(e.warnings, e.fault(fmt.Sprintf("%s is not set, and empty here", strings.Join(missing, ", ")), e.unsetFix(missing[0])))
	}
	return v
}

func (e *expander) pairs(list []kubefile.Pair) []kubefile.Pair {
	out := make([]kubefile.Pair, len(list))
	for i, p := range list {
		out[i] = kubefile.Pair{Name: e.value(p.Name), Value: e.value(p.Value), Set: p.Set}
	}
	return out
}

func (e *expander) instruction(in kubefile.Instruction) kubefile.Instruction {
	switch in := in.(type) {
	case *kubefile.From:
		return &kubefile.From{At: in.At, Platform: e.word(in.Platform), Image: e.word(in.Image), Alias: in.Alias}
	case *kubefile.Arg:
		return e.arg(in)
	case *kubefile.Env:
		// All pairs see the values from before the instruction.
		out := &kubefile.Env{At: in.At, Pairs: e.pairs(in.Pairs)}
		for _, p := range out.Pairs {
			e.env[p.Name] = p.Value
		}
		return out
	case *kubefile.Label:
		return &kubefile.Label{At: in.At, Pairs: e.pairs(in.Pairs)}
	case *kubefile.Maintainer:
		return &kubefile.Maintainer{At: in.At, Name: in.Name}
	case *kubefile.Copy:
		return e.copy(in)
	case *kubefile.Run:
		out := *in
		out.Network = e.word(in.Network)
		out.Mounts = slices.Clone(in.Mounts)
		for i := range out.Mounts {
			m := &out.Mounts[i]
			m.ID, m.Target = e.word(m.ID), e.word(m.Target)
		}
		return &out
	case *kubefile.App:
		return &kubefile.App{At: in.At, Kind: in.Kind, Name: e.word(in.Name), Sources: e.words(in.Sources)}
	case *kubefile.AppCmds:
		return &kubefile.AppCmds{At: in.At, Name: e.word(in.Name), Commands: in.Commands}
	case *kubefile.AppEnv:
		return &kubefile.AppEnv{At: in.At, Name: e.word(in.Name), Pairs: e.pairs(in.Pairs)}
	case *kubefile.KubeVersion:
		// The lexer takes only "<<" for the beginning of a heredoc, not "<".
		return &kubefile.KubeVersion{At: in.At, Range: e.word(in.Range)}
	case *kubefile.Launch:
		return &kubefile.Launch{At: in.At, Apps: e.words(in.Apps)}
	}
	return in // CMD, CMDS: nothing to expand
}

// arg gives each argument its value: --build-arg, else its default, else the
// platform's or the base's value.
func (e *expander) arg(in *kubefile.Arg) *kubefile.Arg {
	out := &kubefile.Arg{At: in.At}
	for _, p := range in.Pairs {
		e.declared[p.Name] = true
		given, ok := e.vars.BuildArgs[p.Name]
		switch {
		case ok:
			p.Value, p.Set = given, true
		case p.Set:
			p.Value = e.value(p.Value)
		default:
			if v, ok := e.args[p.Name]; ok {
				p.Value, p.Set = v, true
			} else if v, ok := e.predef[p.Name]; ok {
				p.Value, p.Set = v, true
			}
		}
		if p.Set {
			e.args[p.Name] = p.Value
		}
		out.Pairs = append(out.Pairs, p)
	}
	return out
}

func (e *expander) copy(in *kubefile.Copy) *kubefile.Copy {
	out := &kubefile.Copy{
		At: in.At, Add: in.Add, Dest: e.word(in.Dest),
		Chmod: e.word(in.Chmod), Chown: e.word(in.Chown), Checksum: e.word(in.Checksum), Exclude: e.words(in.Exclude),
	}
	for _, s := range in.Sources {
		if !strings.HasPrefix(s, "<<") { // a heredoc's word
			s = e.word(s)
		}
		out.Sources = append(out.Sources, s)
	}
	for _, h := range in.Heredocs {
		h.Content = h.Body()
		h.Chomp = false
		if h.Expand {
			h.Content = e.inline(h.Content)
		}
		out.Heredocs = append(out.Heredocs, h)
	}
	return out
}

// inline expands the variables of a heredoc; quotes stand for themselves.
func (e *expander) inline(text string) string {
	e.lex.SkipProcessQuotes = true
	defer func() { e.lex.SkipProcessQuotes = false }()
	v, missing, _ := e.expand(text)
	if len(missing) > 0 {
		e.warnings = append(e.warnings, e.fault(fmt.Sprintf("%s is not set, and empty here", strings.Join(missing, ", ")), "quote the heredoc's word, as in <<\"EOF\", to keep its text as it is"))
	}
	return v
}
