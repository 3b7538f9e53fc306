package hosttest

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// A Process is a command that a machine runs.
type Process struct {
	Machine        *Machine
	Args           []string
	Env            []string
	Dir            string
	Root           bool // it runs as root
	PID            int
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	ctx    context.Context // done when the process is killed or its connection ends
	cancel context.CancelCauseFunc
}

// Context is done when the process is killed or its connection ends.
func (p *Process) Context() context.Context { return p.ctx }

// killed is the cause of a context that a signal ended.
type killed string

func (k killed) Error() string { return "killed by SIG" + string(k) }

func (p *Process) end(signal string) { p.cancel(killed(signal)) }

// The shell text that package host puts around a command.
const (
	pidLine = "echo \"\x01sealer-pid $$\" >&2; "
	guard   = `IFS= read -r l; [ "$l" = sealer ] || exit 97; `
)

// script runs shell text of package host and returns its status.
func (m *Machine) script(p *Process, text string) int {
	if rest, ok := strings.CutPrefix(text, pidLine); ok {
		fmt.Fprintf(p.Stderr, "\x01sealer-pid %d\n", p.PID)
		text = rest
	}
	if rest, ok := strings.CutPrefix(text, guard); ok {
		if line, err := readLine(p.Stdin); err != nil || line != "sealer" {
			return 97
		}
		text = rest
	}
	if text == "exit 0" {
		return 0
	}
	for {
		words, rest := split(text)
		switch {
		case len(words) == 2 && words[0] == "cd":
			p.Dir = words[1]
		case len(words) == 2 && words[0] == "export":
			p.Env = append(p.Env, words[1])
		case len(words) > 1 && words[0] == "exec" && rest == "":
			p.Args = words[1:]
			if len(p.Args) == 3 && p.Args[0] == "sh" && p.Args[1] == "-c" {
				return m.script(p, p.Args[2])
			}
			return m.run(p)
		default:
			// Shell text of the program's own: it is an argument of sh.
			p.Args = []string{"sh", "-c", text}
			return m.run(p)
		}
		text = rest
	}
}

// split takes the words of text up to " && ".
func split(text string) (words []string, rest string) {
	var word strings.Builder
	in := false // a word has begun
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == ' ':
			if in {
				words, in = append(words, word.String()), false
				word.Reset()
			}
			if after, ok := strings.CutPrefix(text[i:], " && "); ok {
				return words, after
			}
			i++
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, ""
			}
			word.WriteString(text[i+1 : i+1+end])
			in, i = true, i+end+2
		case c == '\\' && i+1 < len(text):
			word.WriteByte(text[i+1])
			in, i = true, i+2
		default:
			word.WriteByte(c)
			in, i = true, i+1
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, ""
}
