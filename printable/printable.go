package printable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// unprintable are the characters that never reach a terminal or a log as they
// are: controls (C0, C1) steer a terminal, bidirectional marks and separators
// make text look like another text, and the tag block is invisible. Joiners are
// left: words of several languages need them.
var unprintable = []*unicode.RangeTable{
	unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control,
	{
		R16: []unicode.Range16{{Lo: 0x200b, Hi: 0x200b, Stride: 1}, {Lo: 0x2060, Hi: 0x2060, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0xe0000, Hi: 0xe007f, Stride: 1}},
	},
}

// Escapes reports whether a Writer escapes r. Line ends and tabs stay: the text of
// sealer itself has them.
func Escapes(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return false
	case r < 0xa0:
		return true
	}
	return unicode.In(r, unprintable...)
}

// AppendEscaped appends r as JSON escapes it, \u001b. So JSON that passes a
// Writer keeps its data: there such a character is inside a string.
func AppendEscaped(b []byte, r rune) []byte {
	if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
		return fmt.Appendf(b, `\u%04x\u%04x`, r1, r2)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// A Writer stands before the standard output and error of all commands, and before
// the files that people open. It escapes the
// unprintable characters and the bytes that are no UTF-8, wherever they come
// from: an image, a registry, a node, a file, the command line. A character may
// come in pieces. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the begin of a character
	err  error  // of the first write that failed
}

// NewWriter returns a Writer to w. The caller closes it, which does not close w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write returns len(b), unless writing failed.
func (p *Writer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := b
	if len(p.rest) > 0 {
		text = append(p.rest, b...)
		p.rest = nil
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			p.rest = bytes.Clone(text)
			break
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case Escapes(r):
			out = AppendEscaped(out, r)
		default:
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return len(b), p.put(out)
}

// Close writes the begin of a character that never ended. It returns the first
// error of all writes, so that a command whose results were lost fails.
func (p *Writer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []byte
	for _, c := range p.rest {
		out = fmt.Appendf(out, `\x%02x`, c)
	}
	p.rest = nil
	return errors.Join(p.put(out), p.err)
}

func (p *Writer) put(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	_, err := p.w.Write(out)
	if p.err == nil {
		p.err = err
	}
	return err
}
