package parser

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/kubefile"
)

// build makes the instruction p.keyword, or reports a fault and returns nil. args
// is the text after the flags, without white space around it.
func (p *reader) build(at kubefile.At, flags []flag, args string, heredocs []kubefile.Heredoc) kubefile.Instruction {
	switch p.keyword {
	case "FROM":
		return p.from(at, flags, args)
	case "ARG":
		if list, ok := p.arguments(args); ok {
			return &kubefile.Arg{At: at, Pairs: list}
		}
	case "ENV":
		if list, ok := p.pairs(args); ok {
			return &kubefile.Env{At: at, Pairs: bareNames(list)}
		}
	case "LABEL":
		if list, ok := p.pairs(args); ok {
			return &kubefile.Label{At: at, Pairs: list}
		}
	case "MAINTAINER":
		return &kubefile.Maintainer{At: at, Name: args}
	case "COPY", "ADD":
		return p.copy(at, flags, args, heredocs)
	case "RUN":
		return p.run(at, flags, args, heredocs)
	case "CMD":
		if list, ok := p.commands(args); ok {
			return &kubefile.Cmd{At: at, Commands: list}
		}
	case "CMDS":
		if list, ok := p.list(args); ok {
			return &kubefile.Cmds{At: at, Commands: list}
		}
	case "KUBEVERSION":
		return &kubefile.KubeVersion{At: at, Range: unquote(args)}
	case "LAUNCH":
		list, ok := p.words(args)
		if strings.HasPrefix(args, "[") {
			list, ok = p.list(args)
		}
		if ok {
			return &kubefile.Launch{At: at, Apps: list}
		}
	default:
		return p.app(at, args)
	}
	return nil
}

// words splits args, and reports an open quote.
func (p *reader) words(args string) ([]string, bool) {
	list, err := splitWords(args, p.file.Escape)
	if err != nil {
		p.bad(err.Error(), "close it")
		return nil, false
	}
	if slices.Contains(list, "#") {
		p.bad("a # inside a line begins no comment", "put the comment on a line of its own")
		return nil, false
	}
	return list, true
}

// list reads a JSON list that must be one.
func (p *reader) list(args string) ([]string, bool) {
	if args == "" {
		return nil, true // kubefile reports the empty list
	}
	list, err := jsonList(args)
	if err != nil {
		p.bad(err.Error(), `write ["c1", "c2"], with double quotes`)
		return nil, false
	}
	return list, true
}

// commands reads a JSON list of commands, or one command, which is never split.
func (p *reader) commands(args string) ([]string, bool) {
	if args == "" {
		return nil, true
	}
	list, err := jsonList(args)
	switch {
	case err == nil:
		return list, true
	case commandAsJSON(args):
		return p.list(args)
	}
	return []string{args}, true
}

func (p *reader) from(at kubefile.At, flags []flag, args string) kubefile.Instruction {
	list, ok := p.words(args)
	if !ok {
		return nil
	}
	f := &kubefile.From{At: at, Platform: get(flags, "platform")}
	switch {
	case len(list) == 3 && strings.EqualFold(list[1], "as"):
		f.Alias = list[2]
	case len(list) > 1:
		p.bad(fmt.Sprintf("it has %d arguments", len(list)), "FROM scratch or FROM IMAGE")
		return nil
	}
	if len(list) > 0 {
		f.Image = list[0]
	}
	return f
}

// pairs reads "k=v ...", or "k the rest of the line".
func (p *reader) pairs(args string) ([]kubefile.Pair, bool) {
	form := p.keyword + " name=value ..."
	if args == "" {
		p.bad("the name and the value are missing", form)
		return nil, false
	}
	first, rest, err := cutWord(args, p.file.Escape)
	if err == nil {
		if _, _, eq := cutBare(first, '=', p.file.Escape); !eq {
			if rest == "" {
				p.bad(fmt.Sprintf("%s has no value", clip(first)), form)
				return nil, false
			}
			return []kubefile.Pair{{Name: first, Value: rest, Set: true}}, true
		}
	}
	list, ok := p.words(args)
	var out []kubefile.Pair
	for _, w := range list {
		name, value, eq := cutBare(w, '=', p.file.Escape)
		if !eq {
			p.bad(fmt.Sprintf("%s has no value", clip(w)), "quote values that hold spaces: "+form)
			ok = false
			continue
		}
		out = append(out, kubefile.Pair{Name: name, Value: value, Set: true})
	}
	return out, ok
}

// bareNames drops quotes around the names of variables.
func bareNames(list []kubefile.Pair) []kubefile.Pair {
	for i := range list {
		list[i].Name = unquote(list[i].Name)
	}
	return list
}

// another matches the variable that follows a comma in "ARG a=1,b=2".
var another = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// arguments reads "name[=default] ..." and "a=1,b=2".
func (p *reader) arguments(args string) ([]kubefile.Pair, bool) {
	list, ok := p.words(args)
	if !ok {
		return nil, false
	}
	if len(list) == 0 {
		p.bad("the name is missing", "ARG name[=default]")
		return nil, false
	}
	var out []kubefile.Pair
	for _, w := range list {
		for w != "" {
			var this string
			this, w = cutArgument(w, p.file.Escape)
			name, value, set := cutBare(this, '=', p.file.Escape)
			out = append(out, kubefile.Pair{Name: name, Value: value, Set: set})
		}
	}
	return out, true
}

// cutArgument cuts w at the first bare comma that another variable follows.
func cutArgument(w string, escape rune) (first, rest string) {
	for at := 0; ; {
		before, after, found := cutBare(w[at:], ',', escape)
		if !found {
			return w, ""
		}
		at += len(before)
		if another.MatchString(after) {
			return w[:at], after
		}
		at++
	}
}

func (p *reader) copy(at kubefile.At, flags []flag, args string, heredocs []kubefile.Heredoc) kubefile.Instruction {
	list, err := jsonList(args)
	if err != nil {
		if meantAsJSON(args) {
			p.bad(err.Error(), `write ["SRC", "DEST"], with double quotes`)
			return nil
		}
		var ok bool
		if list, ok = p.words(args); !ok {
			return nil
		}
	}
	c := &kubefile.Copy{
		At: at, Add: p.keyword == "ADD", Heredocs: heredocs,
		Chmod: get(flags, "chmod"), Chown: get(flags, "chown"), Checksum: get(flags, "checksum"),
	}
	for _, f := range flags {
		if f.name == "exclude" {
			c.Exclude = append(c.Exclude, f.value)
		}
	}
	if n := len(list); n > 0 {
		c.Sources, c.Dest = list[:n-1:n-1], list[n-1]
	}
	return c
}

func (p *reader) run(at kubefile.At, flags []flag, args string, heredocs []kubefile.Heredoc) kubefile.Instruction {
	r := &kubefile.Run{At: at, Network: get(flags, "network"), Heredocs: heredocs}
	for _, f := range flags {
		if f.name == "mount" {
			m, ok := p.mount(f.value)
			if !ok {
				return nil
			}
			r.Mounts = append(r.Mounts, m)
		}
	}
	list, err := jsonList(args)
	switch {
	case err == nil && len(list) > 0:
		r.Args = list
	case err == nil || commandAsJSON(args):
		p.bad(`the JSON form is no list of strings`, `write ["program", "argument"], with double quotes`)
		return nil
	default:
		r.Command = args
	}
	return r
}

// mount reads "type=secret,id=x,target=/y".
func (p *reader) mount(s string) (kubefile.Mount, bool) {
	m := kubefile.Mount{}
	options := strings.Split(unquote(s), ",")
	for _, opt := range options {
		if kind, ok := strings.CutPrefix(opt, "type="); ok {
			m.Type = kind
		}
	}
	if m.Type != "" && m.Type != "secret" {
		return m, true // kubefile reports the type; the options of other types are not known here
	}
	for _, opt := range options {
		name, value, set := strings.Cut(opt, "=")
		switch name {
		case "type":
		case "id":
			m.ID = value
		case "target", "dst", "destination":
			m.Target = value
		case "env":
			m.Env = value
		case "mode":
			m.Mode = value
		case "required":
			required, err := strconv.ParseBool(value)
			if set && err != nil {
				p.bad(fmt.Sprintf("--mount: required=%s is neither true nor false", clip(value)), "write required")
				return m, false
			}
			m.Required = !set || required
		default:
			known := []string{"type", "id", "target", "env", "mode", "required"}
			fix := "the options are " + strings.Join(known, ", ")
			if s := kubefile.Suggest(name, known); s != "" {
				fix = "did you mean " + s + "?"
			}
			p.bad(fmt.Sprintf("--mount: unknown option %s", clip(name)), fix)
			return m, false
		}
	}
	return m, true
}

// app reads APP, CNI, CSI, APPCMDS and APPENV: a name, then its arguments.
func (p *reader) app(at kubefile.At, args string) kubefile.Instruction {
	name, rest, err := cutWord(args, p.file.Escape)
	if err != nil {
		p.bad(err.Error(), "close it")
		return nil
	}
	switch p.keyword {
	case "APPCMDS":
		if list, ok := p.list(rest); ok {
			return &kubefile.AppCmds{At: at, Name: name, Commands: list}
		}
	case "APPENV":
		if rest == "" {
			return &kubefile.AppEnv{At: at, Name: name}
		}
		if list, ok := p.pairs(rest); ok {
			return &kubefile.AppEnv{At: at, Name: name, Pairs: bareNames(list)}
		}
	default:
		if list, ok := p.words(rest); ok {
			return &kubefile.App{At: at, Kind: p.keyword, Name: name, Sources: list}
		}
	}
	return nil
}

// unquote drops one pair of quotes around all of s.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
