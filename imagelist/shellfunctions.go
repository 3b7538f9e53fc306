package imagelist

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A shellFunction is a function of a script, or of one that it takes in.
type shellFunction struct {
	body       string
	first, end int // lines of the body; 0 in another file
}

// The limits of the calls of functions that are read with their arguments.
const (
	maxCalls     = 500
	maxCallDepth = 5       // functions that call functions
	maxCallBytes = 1 << 20 // of all bodies together
)

var (
	functionAt = regexp.MustCompile(`(?m)^[ \t]*(?:function[ \t]+([A-Za-z_][\w.:-]*)[ \t]*(?:\(\))?|([A-Za-z_][\w.:-]*)[ \t]*\(\))[ \t]*(?:#[^\n]*)?\n?[ \t]*\{`)
	// argument is $1, ${1}, ${1:-DEFAULT}, and all of them: $@, "$@", $*.
	argument = regexp.MustCompile(`\$\{([1-9])(?::?[-=]([^{}]*))?\}|\$([1-9])|"\$[@*]"|\$[@*]`)
	shifted  = regexp.MustCompile(`(?m)(?:^|[;&|{\s])shift(?:[ \t]+([1-9]))?(?:[\s;&|]|$)`)
)

// functionsOf are the functions of a script that use their arguments.
func functionsOf(text string) map[string]shellFunction {
	all := map[string]shellFunction{}
	for _, m := range functionAt.FindAllStringSubmatchIndex(text, -1) {
		name := ""
		for _, i := range []int{2, 4} {
			if m[i] >= 0 {
				name = text[m[i]:m[i+1]]
			}
		}
		open := m[1] - 1
		body := text[open : open+closing(text[open:], '{', '}')]
		if !argument.MatchString(body) {
			continue
		}
		first := 1 + strings.Count(text[:open], "\n")
		all[name] = shellFunction{strings.TrimSuffix(strings.TrimPrefix(body, "{"), "}"), first, first + strings.Count(body, "\n")}
	}
	return all
}

// call reads the calls of functions: the commands of the body stand behind each,
// with its arguments. What the definition says with arguments that are not known
// is left out then.
func (r *shellReader) call(functions map[string]shellFunction) {
	if len(functions) == 0 {
		return
	}
	c := caller{r: r, functions: functions, called: map[string]bool{}}
	out := c.commands(r.out, 0)
	var dropped []shellFunction
	for name := range c.called {
		if f := functions[name]; f.first > 0 {
			dropped = append(dropped, f)
		}
	}
	inside := func(line int) bool {
		return slices.ContainsFunc(dropped, func(f shellFunction) bool { return f.first <= line && line <= f.end })
	}
	r.out = slices.DeleteFunc(out, func(cmd shellCommand) bool {
		return !cmd.called && inside(cmd.line) && slices.ContainsFunc(cmd.words, func(w word) bool { return w.dynamic })
	})
}

type caller struct {
	r         *shellReader
	functions map[string]shellFunction
	called    map[string]bool
	calls     int
	bytes     int
}

func (c *caller) commands(in []shellCommand, depth int) (out []shellCommand) {
	for _, cmd := range in {
		out = append(out, cmd)
		name := cmd.words[0].text
		f, ok := c.functions[name]
		args := cmd.words[1:]
		if !ok || len(args) == 0 || depth == maxCallDepth || c.calls == maxCalls || !slices.ContainsFunc(args, plainArgument) {
			continue
		}
		body := withArguments(f.body, args)
		c.calls++
		if c.bytes += len(body); c.bytes > maxCallBytes {
			continue
		}
		c.called[name] = true
		out = append(out, c.commands(c.read(f, body, cmd.line), depth+1)...)
	}
	return out
}

// read reads a body. A command that is known is said to stand where the call does.
func (c *caller) read(f shellFunction, body string, line int) []shellCommand {
	sub := &shellReader{text: body, line: 1, vars: maps.Clone(c.r.vars), times: map[string]int{}, partial: map[string]string{}}
	sub.read()
	at := func(n int, dynamic bool) int {
		if dynamic && f.first > 0 {
			return f.first + n - 1
		}
		return line
	}
	for _, a := range sub.assigned {
		a.line = at(a.line, true)
		c.r.assigned = append(c.r.assigned, a)
	}
	c.r.arrays = append(c.r.arrays, sub.arrays...)
	for i := range sub.out {
		cmd := &sub.out[i]
		dynamic := slices.ContainsFunc(cmd.words, func(w word) bool { return w.dynamic })
		cmd.line, cmd.called = at(cmd.line, dynamic), true
		for j := range cmd.words {
			cmd.words[j].line = at(cmd.words[j].line, dynamic)
		}
	}
	return sub.out
}

// plainArgument reports whether a word can be put into a body.
func plainArgument(w word) bool {
	return w.text != "$@" && w.text != "$*" && !strings.ContainsAny(w.text, "`\"'\\\n;|&<>(){}") || variableUse.MatchString(w.text)
}

// withArguments puts the words of a call into the body of a function.
func withArguments(body string, args []word) string {
	if m := shifted.FindStringSubmatchIndex(body); m != nil {
		n := 1
		if m[2] >= 0 {
			n, _ = strconv.Atoi(body[m[2]:m[3]])
		}
		return withArguments(body[:m[0]], args) + "\n" + withArguments(body[m[1]:], args[min(n, len(args)):])
	}
	return argument.ReplaceAllStringFunc(body, func(mark string) string {
		m := argument.FindStringSubmatch(mark)
		i, err := strconv.Atoi(m[1] + m[3])
		switch {
		case err != nil: // all
			var all []string
			for _, a := range args {
				if !plainArgument(a) {
					return mark
				}
				all = append(all, a.text)
			}
			return strings.Join(all, " ")
		case i > len(args) || args[i-1].text == "" && m[2] != "":
			return m[2]
		case !plainArgument(args[i-1]):
			return mark
		}
		return args[i-1].text
	})
}
