package sbom

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// A stream writes one JSON object member by member, so that the elements of its
// lists are never in memory together. The first error sticks.
type stream struct {
	w       *bufio.Writer
	err     error
	members int
}

func newStream(w io.Writer) *stream {
	s := &stream{w: bufio.NewWriterSize(w, 64<<10)}
	s.text("{")
	return s
}

func (s *stream) text(t string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(t)
	}
}

func (s *stream) value(v any) {
	if s.err != nil {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // package URLs have an &
	if s.err = e.Encode(v); s.err == nil {
		_, s.err = s.w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
}

func (s *stream) key(name string) {
	if s.members > 0 {
		s.text(",")
	}
	s.members++
	s.text(fmt.Sprintf("\n%q:", name))
}

// member writes one member of the object.
func (s *stream) member(name string, v any) {
	s.key(name)
	s.value(v)
}

// list writes a member that is a list, one element a line.
func (s *stream) list(name string, elements iter.Seq[any]) {
	s.key(name)
	s.text("[")
	separator := "\n"
	for v := range elements {
		if s.err != nil {
			return
		}
		s.text(separator)
		s.value(v)
		separator = ",\n"
	}
	s.text("]")
}

func (s *stream) close() error {
	s.text("\n}\n")
	if s.err == nil {
		s.err = s.w.Flush()
	}
	return s.err
}

// identifier returns a short name for the thing that parts describe: the same for
// the same parts.
func identifier(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
