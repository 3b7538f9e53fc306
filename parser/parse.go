package parser

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clusterimage/sealer/kubefile"
)

// Parse reads the Kubefile r; errors call it name. It reports all faults that can
// be found without variables, base and context, joined in line order; each is a
// *kubefile.Error. Beside an error the File has all instructions without a fault,
// and FROM in any case, so that a caller can look for more faults. The File is
// nil when r is no text, or has no instruction.
func Parse(name string, r io.Reader) (*kubefile.File, error) {
	src, ok, err := read(name, r)
	if err != nil {
		return nil, err
	}
	f := &kubefile.File{Name: name, DockerCopy: src.dockerCopy, Escape: '\\'}
	p := &reader{file: f, errs: src.errs}
	if ok {
		var list []line
		list, f.Escape = src.lines()
		p.errs = src.errs
		for _, l := range list {
			p.instruction(l)
		}
		p.validate()
	}
	slices.SortStableFunc(p.errs, func(a, b *kubefile.Error) int { return a.Line - b.Line })
	faults := kubefile.Join(p.errs)
	if faults != nil && len(f.Instructions) == 0 {
		return nil, faults
	}
	f.Instructions = slices.DeleteFunc(f.Instructions, func(in kubefile.Instruction) bool {
		return in.Keyword() != "FROM" && slices.ContainsFunc(p.errs, func(e *kubefile.Error) bool { return e.Line == in.Line() })
	})
	return f, faults
}

// A reader turns lines into instructions.
type reader struct {
	file *kubefile.File
	errs []*kubefile.Error

	line    int    // of the current instruction
	keyword string // its name, in capitals
}

// validate adds kubefile's faults for the lines that have no error yet: an
// instruction that could not be read gets one fault.
func (p *reader) validate() {
	read := map[int]bool{}
	for _, e := range p.errs {
		read[e.Line] = true
	}
	for _, e := range p.file.Faults() {
		if read[e.Line] {
			continue
		}
		if e.Line == 0 && len(p.errs) > 0 {
			continue // no FROM was read, but a misspelt one was reported
		}
		p.errs = append(p.errs, e)
	}
}

func (p *reader) bad(msg, fix string) {
	p.errs = append(p.errs, &kubefile.Error{File: p.file.Name, Line: p.line, Instruction: p.keyword, Msg: msg, Fix: fix})
}

func (p *reader) instruction(l line) {
	text := strings.Trim(l.text, space)
	word, rest := text, ""
	if i := strings.IndexAny(text, space); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	if word == "" {
		return // a continuation without an instruction
	}
	p.line, p.keyword = l.number, strings.ToUpper(word)
	if !slices.Contains(kubefile.Keywords(), p.keyword) {
		p.unknown(word)
		return
	}
	in := p.read(l, rest)
	if in == nil && p.keyword == "FROM" {
		in = &kubefile.From{At: kubefile.At(l.number)} // a faulty FROM must not make the following instructions faulty
	}
	if in != nil {
		p.file.Instructions = append(p.file.Instructions, in)
	}
}

// read makes an instruction of l, whose text after the keyword is rest, or
// reports a fault and returns nil.
func (p *reader) read(l line, rest string) kubefile.Instruction {
	flags, args, err := cutFlags(rest, p.file.Escape)
	if err != nil {
		p.bad(err.Error(), "close it")
		return nil
	}
	values, ok := p.flags(flags)
	if !ok {
		return nil
	}
	return p.build(kubefile.At(l.number), values, args, l.heredocs)
}

// unknown reports a word that is no keyword.
func (p *reader) unknown(word string) {
	p.keyword = ""
	fix := "the instructions are " + strings.Join(kubefile.Keywords(), ", ")
	switch upper := strings.ToUpper(word); upper {
	case "WORKDIR":
		fix = "a ClusterImage has no working directory; write cd DIR && ... in RUN and CMD"
	case "ENTRYPOINT":
		fix = "use CMD"
	case "EXPOSE", "VOLUME", "USER", "HEALTHCHECK", "SHELL", "STOPSIGNAL", "ONBUILD":
		fix = "it means nothing in a ClusterImage; remove it"
	default:
		if at := strings.IndexFunc(word, strange); at >= 0 {
			r, _ := utf8.DecodeRuneInString(word[at:])
			fix = fmt.Sprintf("it holds the character %U, which is no blank: write one in its place", r)
		} else if s := kubefile.Suggest(upper, kubefile.Keywords()); s != "" {
			fix = "did you mean " + s + "?"
			if s == "FROM" {
				p.file.Instructions = append(p.file.Instructions, &kubefile.From{At: kubefile.At(p.line)})
			}
		}
	}
	p.bad(fmt.Sprintf("unknown instruction %s", clip(word)), fix)
}

// strange reports invisible characters and blanks other than ASCII's: text copied
// from a web page may contain them.
func strange(r rune) bool { return r > unicode.MaxASCII && !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// clip shortens a quotation to a part of one line.
func clip(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

// A flag is --name=value, or --name alone.
type flag struct {
	name, value string
	set         bool // "=" was there
}

// flags checks the flags of an instruction against kubefile.Flags.
func (p *reader) flags(words []string) (out []flag, ok bool) {
	ok = true
	known := kubefile.Flags(p.keyword)
	for _, w := range words {
		name, value, set := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		var fix string
		switch {
		case slices.Contains(known, name):
			if set && value != "" || name == "link" {
				out = append(out, flag{name, value, set})
				continue
			}
			p.bad(fmt.Sprintf("flag --%s has no value", name), fmt.Sprintf("write --%s=VALUE", name))
			ok = false
			continue
		case name == "from" && (p.keyword == "COPY" || p.keyword == "ADD"):
			fix = "a Kubefile has one stage; copy from the build context"
		case len(known) > 0:
			if s := kubefile.Suggest(name, known); s != "" {
				fix = "did you mean --" + s + "?"
			} else {
				fix = p.keyword + " takes --" + strings.Join(known, ", --")
			}
		default:
			fix = p.keyword + " takes no flags"
		}
		p.bad(fmt.Sprintf("unknown flag --%s", clip(name)), fix)
		ok = false
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.name] && f.name != "mount" && f.name != "exclude" {
			p.bad(fmt.Sprintf("flag --%s stands twice", f.name), "keep one")
			ok = false
		}
		seen[f.name] = true
	}
	return out, ok
}

func get(flags []flag, name string) string {
	for _, f := range flags {
		if f.name == name {
			return f.value
		}
	}
	return ""
}
