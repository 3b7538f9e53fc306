package imagelist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A document is one YAML or JSON value of a file, with its place.
type document struct {
	node *yaml.Node
	line int // added to a node's line to get the file's
}

// docError is why one document of a file does not parse.
type docError struct {
	line int
	text string // the content of that line
	err  error
}

// documents splits data into its YAML documents, or its concatenated JSON
// values, and parses each. A document that does not parse does not hide the
// others: it is an error with the line in the file.
func documents(data []byte) (docs []document, faults []docError) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if looksLikeJSON(data) {
		if nodes, err := parseJSON(data); err == nil {
			for _, n := range nodes {
				docs = append(docs, document{node: n})
			}
			return docs, nil
		}
	}
	return parse(splitYAML(data))
}

// parse parses each chunk as a document.
func parse(chunks []chunk) (docs []document, faults []docError) {
	for _, c := range chunks {
		node, err := parseYAML(c.data)
		if err != nil {
			line, err := yamlErrorLine(err)
			line = min(line, 1+bytes.Count(c.data, []byte("\n")))
			faults = append(faults, docError{line: c.line + line, text: lineOf(c.data, line), err: err})
			continue
		}
		if node != nil {
			docs = append(docs, document{node: node, line: c.line})
		}
	}
	return docs, faults
}

type chunk struct {
	data []byte
	line int // lines of the file before it
}

// splitYAML cuts data at the lines that begin a YAML document: "---" alone or
// followed by white space. The marker stays with the document that it begins.
func splitYAML(data []byte) []chunk {
	var out []chunk
	start, startLine, line := 0, 0, 0
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if l := data[at:end]; at > start && isMarker(l) && !onlyDirectives(data[start:at]) {
			out = append(out, chunk{data[start:at], startLine})
			start, startLine = at, line
		}
		at = end
		line++
	}
	return append(out, chunk{data[start:], startLine})
}

// splitHelm cuts the rendering of a template as Helm does before it hands the
// documents to the cluster (releaseutil.SplitManifests): at "---" at the start of a
// line, whatever follows, with the white space around it. A line break that
// belongs to one separator does not begin the next.
func splitHelm(data []byte) []chunk {
	var out []chunk
	start, line := 0, 0
	cut := func(from, to int) { // the separator
		if part := data[start:from]; len(bytes.TrimSpace(part)) > 0 {
			out = append(out, chunk{part, line})
		}
		line += bytes.Count(data[start:to], []byte{'\n'})
		start = to
	}
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("---"))
		if i < 0 {
			break
		}
		at += i
		from := at
		for from > start && isSpace(data[from-1]) {
			from--
		}
		if at > 0 && (from == at || data[at-1] != '\n') {
			at++
			continue
		}
		for at += 3; at < len(data) && isSpace(data[at]); at++ {
		}
		cut(from, at)
	}
	cut(len(data), len(data))
	return out
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func isMarker(l []byte) bool {
	if !bytes.HasPrefix(l, []byte("---")) {
		return false
	}
	return len(l) == 3 || l[3] == '\n' || l[3] == '\r' || l[3] == ' ' || l[3] == '\t'
}

// onlyDirectives reports whether data may stand before the first
// marker: %YAML and %TAG lines.
func onlyDirectives(data []byte) bool {
	seen := false
	for l := range bytes.Lines(data) {
		l = bytes.TrimSpace(l)
		if len(l) > 0 && l[0] == '%' {
			seen = true
		} else if len(l) > 0 && l[0] != '#' {
			return false
		}
	}
	return seen
}

// parseYAML returns the root of one document, nil when it is empty.
func parseYAML(data []byte) (*yaml.Node, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err := checkSize(data); err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	// Text after the document is an error.
	if err := dec.Decode(&more); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

var errTooLarge = errors.New("document too large")

// checkSize refuses a document whose nodes would take too much memory. It
// counts the separators of nodes, which is cheap and never too low by more than
// a small factor.
func checkSize(data []byte) error {
	if len(data) > maxDocument {
		return fmt.Errorf("%w: %d bytes, at most %d are read", errTooLarge, len(data), maxDocument)
	}
	if n := bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'}) +
		bytes.Count(data, []byte{'\n'}) + bytes.Count(data, []byte("- ")); n > maxNodes {
		return fmt.Errorf("%w: about %d values, at most %d are read", errTooLarge, n, maxNodes)
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(?s:(.*))$`)

// yamlErrorLine takes the line out of an error of the YAML parser.
func yamlErrorLine(err error) (int, error) {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil || m[1] == "" {
		if m != nil && !errors.Is(err, errTooLarge) {
			return 1, errors.New(m[2])
		}
		return 1, err
	}
	n := 0
	_, _ = fmt.Sscan(m[1], &n)
	return max(n, 1), errors.New(m[2])
}

// lineOf returns line n of data, shortened for a message.
func lineOf(data []byte, n int) string {
	i := 0
	for l := range bytes.Lines(data) {
		if i++; i == n {
			return shorten(strings.TrimSpace(string(l)))
		}
	}
	return ""
}

// shorten makes s fit into a message.
func shorten(s string) string {
	if len(s) <= 120 {
		return s
	}
	s = s[:117]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}

func looksLikeJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 1 && (data[0] == '{' && data[1] != '{' || data[0] == '[')
}

// parseJSON reads concatenated JSON values into the nodes that YAML would
// give. The YAML parser cannot take all JSON: tabs for indentation, surrogate
// pairs.
func parseJSON(data []byte) ([]*yaml.Node, error) {
	if err := checkSize(data); err != nil {
		return nil, err
	}
	p := &jsonParser{data: data, line: 1}
	p.dec = json.NewDecoder(bytes.NewReader(data))
	p.dec.UseNumber()
	var out []*yaml.Node
	for {
		n, err := p.value(0)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
}

type jsonParser struct {
	dec  *json.Decoder
	data []byte
	at   int // offset that line was counted to
	line int
}

// place returns the line where the token just read ends.
func (p *jsonParser) place() int {
	to := min(int(p.dec.InputOffset()), len(p.data))
	p.line += bytes.Count(p.data[p.at:to], []byte{'\n'})
	p.at = to
	return p.line
}

func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, errDeep
	}
	line := p.place()
	switch t := tok.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for p.dec.More() {
			if t == '{' {
				key, err := p.dec.Token()
				if err != nil {
					return nil, noEOF(err)
				}
				s, _ := key.(string)
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Line: p.place()})
			}
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, noEOF(err)
			}
			n.Content = append(n.Content, v)
		}
		_, err := p.dec.Token()
		return n, noEOF(err)
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: t, Line: line}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null", Line: line}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t), Line: line}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: fmt.Sprint(tok), Line: line}, nil
}

// noEOF makes an end inside a value an error that does not read as the end
// of the file.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
