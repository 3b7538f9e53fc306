package imagelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// readLists reads the lists that the options name.
func (s *scanner) readLists() {
	for _, l := range s.o.Lists {
		s.imageList(l)
	}
	for _, l := range s.o.AuthLists {
		s.authList(l)
	}
	for _, l := range s.o.Ignored {
		s.ignoredList(l)
	}
}

// ReadAuthLists returns the findings of image lists with authentication, in
// the order of their lines, each with its credential. Scan finds the same; a
// caller that keeps the result of a scan without credentials puts them back
// with these. The error joins the faults as that of Scan does, and shows
// nothing of a list's content.
func ReadAuthLists(lists []List) ([]Finding, error) {
	s := newScanner(context.Background(), Options{})
	for _, l := range lists {
		s.authList(l)
	}
	return s.res.Found, s.err()
}

// listLines calls f with each line that says something: comments, blanks,
// quotes, carriage returns and a byte order mark are taken away.
func (s *scanner) listLines(l List, f func(line int, text string)) {
	n := 0
	for raw := range bytes.Lines(bytes.TrimPrefix(l.Content, []byte("\xef\xbb\xbf"))) {
		n++
		if len(raw) > maxLine {
			s.fault(fault{file: l.Name, line: n, err: fmt.Errorf("line of %d bytes, want one reference", len(raw)), hard: true})
			continue
		}
		line := strings.TrimSpace(string(raw))
		if i := commentAt(line); i >= 0 {
			line = strings.TrimSpace(line[:i])
		}
		if q := len(line) - 1; q > 0 && (line[0] == '"' || line[0] == '\'') && line[q] == line[0] {
			line = strings.TrimSpace(line[1:q])
		}
		if line != "" {
			f(n, line)
		}
	}
}

// commentAt returns where a comment begins: a # at the start or after white
// space. No reference has one.
func commentAt(line string) int {
	for i, c := range line {
		if c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

// imageList reads one reference, or NAME=SOURCE, a line.
func (s *scanner) imageList(l List) {
	s.listLines(l, func(line int, text string) {
		f, err := listed(text)
		if err != nil {
			s.fault(fault{file: l.Name, line: line, text: text, err: err, hard: true})
			return
		}
		f.File, f.Line, f.Object, f.Rule = l.Name, line, "imageList", "image-list"
		s.addListed(f)
	})
}

// listed reads REFERENCE or NAME=SOURCE.
func listed(text string) (Finding, error) {
	name, source, split := strings.Cut(text, "=")
	r, err := ref.Parse(strings.TrimSpace(name))
	if err != nil {
		return Finding{}, why(err)
	}
	f := Finding{Reference: r, Source: r, Written: text, Confidence: Certain}
	if split {
		if f.Source, err = ref.Parse(strings.TrimSpace(source)); err != nil {
			return Finding{}, fmt.Errorf("the source after '=': %w", why(err))
		}
	}
	return f, nil
}

// why returns err of ref.Parse without the text that it is about, which the
// caller names already.
func why(err error) error {
	if e, ok := errors.AsType[*ref.Error](err); ok {
		return fmt.Errorf("%w: %s", ref.ErrInvalid, e.Reason)
	}
	return err
}

// addListed adds the image of a line, unless another line gives the same name
// another source.
func (s *scanner) addListed(f Finding) {
	for _, g := range s.res.Found {
		if g.Reference == f.Reference && g.Source != f.Source && f.Source != f.Reference && g.Source != g.Reference {
			s.fault(fault{file: f.File, line: f.Line, text: f.Written, hard: true,
				err: fmt.Errorf("%s has another source at %s:%d", f.Reference, g.File, g.Line)})
			return
		}
	}
	s.res.Found = append(s.res.Found, f)
}

// authList reads a YAML list of {registry, username, password, images}. No
// error quotes the file, since it holds passwords.
func (s *scanner) authList(l List) {
	bad := func(line int, err error) { s.fault(fault{file: l.Name, line: line, err: err, hard: true}) }
	docs, faults := documents(l.Content)
	for _, f := range faults {
		bad(f.line, f.err)
	}
	for _, d := range docs {
		if err := check(d.node); err != nil {
			bad(d.line+d.node.Line, err)
			continue
		}
		if !isSeq(d.node) {
			bad(d.line+d.node.Line, errors.New("want a list of {registry, username, password, images}"))
			continue
		}
		for _, it := range items(d.node) {
			s.authSection(l.Name, d.line, it, bad)
		}
	}
}

func (s *scanner) authSection(file string, base int, n *yaml.Node, bad func(int, error)) {
	if !isMap(n) {
		bad(base+n.Line, errors.New("want {registry, username, password, images}"))
		return
	}
	for _, e := range entries(n) {
		switch e.key {
		case "registry", "username", "password", "images":
		default:
			bad(base+e.line, fmt.Errorf("unknown key %q, want registry, username, password or images", e.key))
		}
	}
	c := &Credential{Registry: text(n, "registry"), Username: text(n, "username"), Password: text(n, "password")}
	images := get(n, "images")
	if len(items(images)) == 0 {
		bad(base+n.Line, fmt.Errorf("registry %q: no images", c.Registry))
	}
	for _, it := range items(images) {
		if !isScalar(it) {
			bad(base+it.Line, errors.New("want a reference"))
			continue
		}
		f, err := listed(qualify(c.Registry, strings.TrimSpace(it.Value)))
		if err != nil {
			bad(base+it.Line, fmt.Errorf("%q: %w", it.Value, err))
			continue
		}
		cred := *c
		if c.Registry == "" || f.Source.Registry == "docker.io" {
			cred.Registry = f.Source.Registry
		}
		if f.Source.Registry != cred.Registry {
			bad(base+it.Line, fmt.Errorf("%q is not in the registry %q of its section", it.Value, c.Registry))
			continue
		}
		f.File, f.Line, f.Object, f.Rule, f.Written = file, base+it.Line, authListName, "image-list", it.Value
		if c.Username != "" || c.Password != "" {
			f.Credential = &cred
		}
		s.addListed(f)
	}
}

// qualify puts the section's registry before an image that names no host.
func qualify(registry, image string) string {
	if registry == "" || registry == "docker.io" || strings.Contains(image, "=") || hasHost(image) {
		return image
	}
	return registry + "/" + image
}

// hasHost reports whether the first segment of a reference is a host.
func hasHost(s string) bool {
	first, _, slash := strings.Cut(s, "/")
	return slash && (strings.ContainsAny(first, ".:") || first == "localhost")
}
