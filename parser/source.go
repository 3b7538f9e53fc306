package parser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/clusterimage/sealer/kubefile"
)

const (
	// maxSize is the size of the largest Kubefile that is read.
	maxSize = 1 << 20
	// maxErrors bounds how often a faulty file is parsed again.
	maxErrors = 100
	// mark in front of a keyword hides the keyword from BuildKit's parser, which
	// then keeps the line unjudged. Text with this character is refused.
	mark = "\x01"
)

// A line is an instruction as BuildKit assembled it.
type line struct {
	number   int
	text     string // keyword and arguments, continuations joined
	heredocs []kubefile.Heredoc
}

// A source is a Kubefile's text, cleaned, with its directives read.
type source struct {
	name       string
	text       []byte
	dockerCopy bool
	errs       []*kubefile.Error
}

func (s *source) bad(number int, msg, fix string) {
	s.errs = append(s.errs, &kubefile.Error{File: s.name, Line: number, Msg: msg, Fix: fix})
}

// read reads the text of r. ok is false when r is not text.
func read(name string, r io.Reader) (s *source, ok bool, err error) {
	s = &source{name: name}
	b, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxSize {
		s.bad(0, fmt.Sprintf("it is larger than %d KiB", maxSize>>10), "a Kubefile is text; is this the right file?")
		return s, false, nil
	}
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		s.bad(1, "it is UTF-16", "save it as UTF-8")
		return s, false, nil
	}
	b = bytes.TrimPrefix(b, []byte{0xef, 0xbb, 0xbf})
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	for i, l := range bytes.Split(b, []byte("\n")) {
		if c := bytes.IndexFunc(l, forbidden); c >= 0 || !utf8.Valid(l) {
			what := "it is not UTF-8"
			if c >= 0 {
				what = fmt.Sprintf("it holds the control character %#02x", l[c])
			}
			s.bad(i+1, what, "save it as UTF-8 text")
			return s, false, nil
		}
	}
	s.text = b
	s.directives()
	return s, true, nil
}

func forbidden(r rune) bool { return r < ' ' && r != '\t' && r != '\n' }

// directives reads "# copy=docker" among the parser directives at the top. It
// moves the line behind BuildKit's directives, because BuildKit stops at the
// first directive that it does not know.
func (s *source) directives() {
	lines := bytes.SplitAfter(s.text, []byte("\n"))
	var theirs, ours [][]byte
	escapes := 0
	n := 0
	for ; n < len(lines); n++ {
		body, ok := bytes.CutPrefix(bytes.TrimSpace(lines[n]), []byte("#"))
		name, value, eq := strings.Cut(string(body), "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || !eq {
			break
		}
		switch name {
		case "copy":
			if len(ours) > 0 {
				s.bad(n+1, "the directive copy stands twice", "keep one")
			}
			if value != "docker" && value != "sealer" {
				s.bad(n+1, fmt.Sprintf("directive copy=%s is unknown", value), "write # copy=docker, or drop it")
			}
			s.dockerCopy = value == "docker"
			ours = append(ours, lines[n])
			continue
		case "escape":
			if escapes++; escapes > 1 {
				s.bad(n+1, "the directive escape stands twice", "keep one")
			} else if value != `\` && value != "`" {
				s.bad(n+1, fmt.Sprintf("directive escape=%s is unknown", clip(value)), "write # escape=` or drop it")
			} else {
				theirs = append(theirs, lines[n])
				continue
			}
			theirs = append(theirs, []byte("#\n"))
			continue
		case "syntax", "check":
			theirs = append(theirs, lines[n])
			continue
		}
		break
	}
	// The loop leaves at the first line that is not a directive.
	head := append(theirs, ours...)
	s.text = bytes.Join(append(head, lines[len(head):]...), nil)
}

// lines runs BuildKit's parser. When BuildKit refuses an instruction, lines marks
// its keyword and parses the file again, so that this package judges the
// instruction and BuildKit reads the lines after it.
func (s *source) lines() ([]line, rune) {
	rows := bytes.SplitAfter(s.text, []byte("\n"))
	for range maxErrors {
		res, err := parser.Parse(bytes.NewReader(bytes.Join(rows, nil)))
		if err == nil {
			return assemble(res), res.EscapeToken
		}
		at, msg := where(err), err.Error()
		switch {
		case strings.Contains(msg, "file with no instructions"):
			s.bad(0, "it has no instructions", "begin with FROM scratch or FROM IMAGE")
			return nil, '\\'
		case at < 1 || at > len(rows) || strings.Contains(msg, "directive") || strings.Contains(msg, "escape token") || strings.Contains(msg, "max allowed size"):
			s.bad(max(at, 0), cause(err), "")
			return nil, '\\'
		case strings.Contains(msg, "unterminated heredoc"):
			s.bad(at, "the heredoc has no end", "end it with a line that holds its word alone")
			rows = rows[:at-1] // the rest of the file belongs to it
			if len(bytes.TrimSpace(bytes.Join(rows, nil))) == 0 {
				return nil, '\\'
			}
		case bytes.HasPrefix(bytes.TrimSpace(rows[at-1]), []byte(mark)):
			s.bad(at, cause(err), "")
			return nil, '\\'
		default:
			rows[at-1] = append([]byte(mark), bytes.TrimLeft(rows[at-1], " \t")...)
		}
	}
	s.bad(0, "it has too many errors", "is this a Kubefile?")
	return nil, '\\'
}

func assemble(res *parser.Result) []line {
	var out []line
	for _, n := range res.AST.Children {
		l := line{number: n.StartLine, text: strings.TrimPrefix(n.Original, mark)}
		for _, h := range n.Heredocs {
			l.heredocs = append(l.heredocs, kubefile.Heredoc{Name: h.Name, Content: h.Content, Expand: h.Expand, Chomp: h.Chomp})
		}
		out = append(out, l)
	}
	return out
}

// where returns the line in an error of BuildKit's parser, or 0.
func where(err error) int {
	var le *parser.LocationError
	if errors.As(err, &le) && len(le.Locations) > 0 && len(le.Locations[0]) > 0 {
		return le.Locations[0][0].Start.Line
	}
	return 0
}

// cause returns the text of an error without its location.
func cause(err error) string {
	var le *parser.LocationError
	if errors.As(err, &le) {
		return le.Unwrap().Error()
	}
	return err.Error()
}
