package render

import (
	"fmt"
	"maps"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
)

// functions returns sprig's functions, without the ones whose result differs
// from time to time or from machine to machine: the process's environment, the
// clock, random numbers, keys and certificates, lookups of names.
func functions() template.FuncMap {
	all := maps.Clone(sprig.HermeticTxtFuncMap())
	for _, name := range []string{
		"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
		"genSignedCert", "genSignedCertWithKey", "buildCustomCert", "encryptAES", "decryptAES", "bcrypt", "htpasswd", "derivePassword",
		"shuffle", "getHostByName", "dateModify", "mustDateModify", "htmlDate", "hello", "untilStep", "seq",
	} {
		delete(all, name)
	}
	all["until"], all["repeat"] = until, repeat
	all[needFunc] = func(string, int, any) any { return nil } // Template sets the real one
	return all
}

// until and repeat are sprig's, but refuse to fill the memory.

func until(n int) ([]int, error) {
	if n > maxList {
		return nil, fmt.Errorf("until %d: more than %d", n, maxList)
	}
	list := make([]int, max(n, 0))
	for i := range list {
		list[i] = i
	}
	return list, nil
}

func repeat(n int, s string) (string, error) {
	if n > 0 && len(s) > maxFile/n {
		return "", fmt.Errorf("repeat %d: makes more than %d bytes", n, maxFile)
	}
	return strings.Repeat(s, max(n, 0)), nil
}

// maxList is the longest list that until makes.
const maxList = 100_000

// needFunc is the function that stands around a value which must be there.
const needFunc = "_required"

// lenient names functions that take a missing value as it is.
func lenient(name string) bool {
	switch name {
	case "default", "coalesce", "empty", "ternary", "and", "or", "not", "eq", "ne", "hasKey", "dig", "kindIs", "typeIs", "kindOf", "typeOf", "get", "fail":
		return true
	}
	return false
}

// required rewrites a parsed template so that values which are missing are
// collected, all of them, where they would be used.
type required struct {
	name, text string
	faults     []error
}

// need passes a value on and records a missing one.
func (r *required) need(key string, line int, v any) any {
	if v == nil {
		r.faults = append(r.faults, &Fault{Path: r.name, Line: line, Err: &MissingError{key}})
		return ""
	}
	return v
}

func (r *required) list(n *parse.ListNode) {
	if n == nil {
		return
	}
	for _, c := range n.Nodes {
		switch c := c.(type) {
		case *parse.ActionNode:
			r.pipe(c.Pipe)
		case *parse.IfNode:
			r.list(c.List)
			r.list(c.ElseList)
		case *parse.WithNode:
			r.list(c.List)
			r.list(c.ElseList)
		case *parse.RangeNode:
			r.list(c.List)
			r.list(c.ElseList)
		}
	}
}

// pipe wraps the keys that a pipeline uses. A key that goes through a lenient
// function may be missing.
func (r *required) pipe(p *parse.PipeNode) {
	if p == nil {
		return
	}
	for i, c := range p.Cmds {
		if i+1 < len(p.Cmds) && isLenient(p.Cmds[i+1]) || isLenient(c) {
			continue
		}
		for j, a := range c.Args {
			switch a := a.(type) {
			case *parse.FieldNode:
				c.Args[j] = r.wrap(a)
			case *parse.PipeNode:
				r.pipe(a)
			}
		}
	}
}

func isLenient(c *parse.CommandNode) bool {
	id, ok := c.Args[0].(*parse.IdentifierNode)
	return ok && lenient(id.Ident)
}

// wrap makes (need "key" line .key) of .key.
func (r *required) wrap(f *parse.FieldNode) parse.Node {
	key := strings.Join(f.Ident, ".")
	line := 1 + strings.Count(r.text[:min(int(f.Pos), len(r.text))], "\n")
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: f.Pos, Line: line, Cmds: []*parse.CommandNode{{
		NodeType: parse.NodeCommand, Pos: f.Pos, Args: []parse.Node{
			parse.NewIdentifier(needFunc).SetPos(f.Pos),
			&parse.StringNode{NodeType: parse.NodeString, Pos: f.Pos, Quoted: `"` + key + `"`, Text: key},
			&parse.NumberNode{NodeType: parse.NodeNumber, Pos: f.Pos, IsInt: true, Int64: int64(line), Text: "line"},
			f,
		},
	}}}
}
