package host

import "strings"

// Quote makes of args the words of a command line that a POSIX shell takes
// apart into exactly args. No argument may hold a zero byte.
func Quote(args ...string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quote(a)
	}
	return strings.Join(words, " ")
}

// quote returns s as one word of a shell. Characters without a meaning in any
// shell stay as they are. Letters beyond ASCII are quoted, because their
// meaning depends on the shell's locale.
func quote(s string) string {
	plain := strings.TrimFunc(s, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_@%+:,./-", r)
	})
	if plain == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// script is the shell text that runs c: the only words between a Command and
// the program are these, and all that comes from c is quoted.
func (c Command) script() string {
	var b strings.Builder
	if c.Dir != "" {
		b.WriteString("cd " + quote(c.Dir) + " && ")
	}
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		b.WriteString("export " + name + "=" + quote(value) + " && ")
	}
	b.WriteString("exec " + Quote(c.Args...))
	return b.String()
}
