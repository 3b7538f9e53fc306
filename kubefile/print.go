package kubefile

import (
	"encoding/json"
	"slices"
	"strings"
)

// String prints f so that parsing the result gives f again, apart from line
// numbers. f must not be expanded.
func (f *File) String() string {
	var b strings.Builder
	if f.Escape == '`' {
		b.WriteString("# escape=`\n")
	}
	if f.DockerCopy {
		b.WriteString("# copy=docker\n")
	}
	for _, in := range f.Instructions {
		b.WriteString(in.Keyword() + " " + in.Text() + "\n")
		for _, h := range heredocs(in) {
			b.WriteString(h.Content + h.Name + "\n")
		}
	}
	return b.String()
}

func heredocs(in Instruction) []Heredoc {
	switch in := in.(type) {
	case *Copy:
		return in.Heredocs
	case *Run:
		return in.Heredocs
	}
	return nil
}

// Text prints "[--platform=P] IMAGE [AS name]".
func (f *From) Text() string {
	s := flag("platform", f.Platform) + f.Image
	if f.Alias != "" {
		s += " AS " + f.Alias
	}
	return s
}

// Text prints "name[=default] ...".
func (a *Arg) Text() string { return pairs(a.Pairs) }

// Text prints "k=v ...".
func (e *Env) Text() string { return pairs(e.Pairs) }

// Text prints "k=v ...".
func (l *Label) Text() string { return pairs(l.Pairs) }

// Text prints the maintainer's name.
func (m *Maintainer) Text() string { return m.Name }

// Text prints "[flags] SRC... DEST".
func (c *Copy) Text() string {
	var b strings.Builder
	b.WriteString(flag("chmod", c.Chmod) + flag("chown", c.Chown) + flag("checksum", c.Checksum))
	for _, e := range c.Exclude {
		b.WriteString(flag("exclude", e))
	}
	b.WriteString(words(append(slices.Clone(c.Sources), c.Dest)))
	return b.String()
}

// Text prints "[flags] command".
func (r *Run) Text() string {
	var b strings.Builder
	for _, m := range r.Mounts {
		b.WriteString(flag("mount", m.String()))
	}
	b.WriteString(flag("network", r.Network))
	if r.Args != nil {
		b.WriteString(list(r.Args))
	} else {
		b.WriteString(r.Command)
	}
	return b.String()
}

// String prints the options of --mount.
func (m Mount) String() string {
	s := "type=" + m.Type
	for _, o := range [][2]string{{"id", m.ID}, {"target", m.Target}, {"env", m.Env}, {"mode", m.Mode}} {
		if o[1] != "" {
			s += "," + o[0] + "=" + o[1]
		}
	}
	if m.Required {
		s += ",required"
	}
	return s
}

// Text prints the command, or a JSON list.
func (c *Cmd) Text() string {
	if len(c.Commands) == 1 && plainCommand(c.Commands[0]) {
		return c.Commands[0]
	}
	return list(c.Commands)
}

// Text prints "name SRC...".
func (a *App) Text() string { return strings.Join(append([]string{a.Name}, a.Sources...), " ") }

// Text prints "name [commands]".
func (a *AppCmds) Text() string { return a.Name + " " + list(a.Commands) }

// Text prints "name k=v ...".
func (a *AppEnv) Text() string { return a.Name + " " + pairs(a.Pairs) }

// Text prints the range.
func (k *KubeVersion) Text() string { return k.Range }

// Text prints the names.
func (l *Launch) Text() string { return list(l.Apps) }

// Text prints a JSON list.
func (c *Cmds) Text() string { return list(c.Commands) }

func flag(name, value string) string {
	if value == "" {
		return ""
	}
	return "--" + name + "=" + value + " "
}

func pairs(list []Pair) string {
	if len(list) == 1 && list[0].Set && hasBareSpace(list[0].Value) {
		return list[0].Name + " " + list[0].Value // the old form, "ENV name the rest"
	}
	var out []string
	for _, p := range list {
		if p.Set {
			out = append(out, p.Name+"="+p.Value)
		} else {
			out = append(out, p.Name)
		}
	}
	return strings.Join(out, " ")
}

// words prints raw words separated by spaces, or as a JSON list if one of them
// contains a bare space and would be split.
func words(raw []string) string {
	for _, w := range raw {
		if w == "" || hasBareSpace(w) {
			return list(raw)
		}
	}
	if strings.HasPrefix(raw[0], "[") || strings.HasPrefix(raw[0], "--") {
		return list(raw)
	}
	return strings.Join(raw, " ")
}

// list prints a JSON list of strings.
func list(items []string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		_ = enc.Encode(item) // a string always encodes, a Builder always takes it
	}
	return "[" + strings.ReplaceAll(b.String(), "\n", "") + "]"
}

// plainCommand reports whether a command can be written without JSON.
func plainCommand(c string) bool {
	return c != "" && c == strings.TrimSpace(c) && !strings.HasPrefix(c, "[") && !strings.HasPrefix(c, "--") &&
		!strings.ContainsAny(c, "\n\r\v\f\x00") && !strings.HasSuffix(c, `\`) && !strings.HasSuffix(c, "`")
}

// hasBareSpace reports white space outside quotes, or an open quote: s is then
// not one word.
func hasBareSpace(s string) bool {
	at, open := Bare(s, '\\', func(r rune) bool { return strings.ContainsRune(Space, r) })
	return at >= 0 || open
}
