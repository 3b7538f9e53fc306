package imagelist

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// RulesFile is the name of the rules in a build context.
const RulesFile = ".sealerimages"

// userRules are the decisions of the user over the heuristics: the lines of
// .sealerimages and the ignore lists.
//
//	include REFERENCE[=SOURCE]        an image that no file names
//	ignore PATTERN [in FILE-PATTERN]  not an image, or not wanted; * matches anything
//	field KIND[.GROUP] PATH           a field that holds an image: spec.workers[].runtime
//	gap SUBJECT [in FILE-PATTERN] because REASON
//	                                  a gap that is known, and no harm
//	allowedRegistries SCOPE...        an image from elsewhere is a fault
type userRules struct {
	allowed  []string // scopes, as ref.Reference.Scopes has them; empty allows all
	ignores  []ignoreRule
	fields   []fieldRule
	declared []declaration
}

type ignoreRule struct {
	pattern string // as written
	exact   ref.Reference
	in      string // a pattern for the file, "" for all
	from    string // where the rule stands
}

// A fieldRule names a place in objects of a kind that holds an image.
type fieldRule struct {
	kind, group string // group "" for any
	path        []string
	confidence  Confidence
}

const rulesHelp = `want "include REFERENCE", "ignore PATTERN [in FILE]", "field KIND[.GROUP] PATH", "gap SUBJECT [in FILE] because REASON" or "allowedRegistries HOST[/PATH]..."`

func (s *scanner) parseRules(data []byte) (u userRules) {
	s.listLines(List{RulesFile, data}, func(line int, text string) {
		if err := s.parseRule(&u, line, strings.Fields(text)); err != nil {
			s.fault(fault{file: RulesFile, line: line, text: text, err: err, hard: true})
		}
	})
	return u
}

func (s *scanner) parseRule(u *userRules, line int, words []string) error {
	switch {
	case words[0] == "include" && len(words) == 2:
		f, err := listed(words[1])
		if err != nil {
			return err
		}
		f.File, f.Line, f.Object, f.Rule = RulesFile, line, RulesFile, "include"
		s.addListed(f)
	case words[0] == "ignore" && (len(words) == 2 || len(words) == 4 && words[2] == "in"):
		ig, err := newIgnore(words[1], fmt.Sprintf("%s:%d", RulesFile, line))
		if err != nil {
			return err
		}
		if len(words) == 4 {
			ig.in = words[3]
		}
		u.ignores = append(u.ignores, ig)
	case words[0] == "field" && len(words) == 3:
		kind, group, _ := strings.Cut(words[1], ".")
		p := strings.Split(strings.ReplaceAll(words[2], "[]", ".[]"), ".")
		for _, k := range p {
			if k == "" {
				return errors.New("an empty step in the path")
			}
		}
		u.fields = append(u.fields, fieldRule{kind, group, p, Certain})
	case words[0] == "gap" && len(words) >= 2:
		d, err := newDeclaration(words, line)
		if err != nil {
			return err
		}
		u.declared = append(u.declared, d)
	case words[0] == "allowedRegistries" && len(words) >= 2:
		for _, scope := range words[1:] {
			if err := ref.CheckScope(scope); err != nil {
				return err
			}
			u.allowed = append(u.allowed, scope)
		}
	default:
		return errors.New(rulesHelp)
	}
	return nil
}

func newDeclaration(words []string, line int) (d declaration, err error) {
	d.subject, d.line = words[1], line
	rest := words[2:]
	if len(rest) > 1 && rest[0] == "in" {
		d.in, rest = rest[1], rest[2:]
	}
	if len(rest) < 2 || rest[0] != "because" {
		return d, errors.New(`want "gap SUBJECT [in FILE] because REASON": who reads the image later sees the reason`)
	}
	d.reason = strings.Join(rest[1:], " ")
	return d, nil
}

func newIgnore(pattern, from string) (ignoreRule, error) {
	ig := ignoreRule{pattern: pattern, from: from}
	if strings.Contains(pattern, "*") {
		return ig, nil
	}
	r, err := ref.Parse(pattern)
	if err != nil {
		return ig, why(err)
	}
	ig.exact = r
	return ig, nil
}

func (s *scanner) ignoredList(l List) {
	s.listLines(l, func(line int, text string) {
		ig, err := newIgnore(text, fmt.Sprintf("%s:%d", l.Name, line))
		if err != nil {
			s.fault(fault{file: l.Name, line: line, text: text, err: err, hard: true})
			return
		}
		s.rules.ignores = append(s.rules.ignores, ig)
	})
}

// matches reports whether the rule takes f out. A pattern never takes out
// an image that a list names; a full reference does.
func (ig ignoreRule) matches(f Finding) bool {
	if ig.in != "" && !glob(ig.in, f.File) && !glob(ig.in, path.Base(f.File)) {
		return false
	}
	if ig.exact != (ref.Reference{}) {
		return ig.exact == f.Reference
	}
	if f.Rule == "image-list" || f.Rule == "include" {
		return false
	}
	return glob(ig.pattern, f.Reference.String()) || glob(ig.pattern, f.Reference.Familiar()) || glob(ig.pattern, f.Written)
}

// applyRules moves the findings that the user ignores to the rejected ones.
func (s *scanner) applyRules() {
	kept := s.res.Found[:0]
	for _, f := range s.res.Found {
		if ig := s.ignoredBy(f); ig != nil {
			f.Reason = "ignored by " + ig.from
			s.res.Rejected = append(s.res.Rejected, f)
			continue
		}
		if !s.allowed(f) {
			why := fmt.Errorf("allowedRegistries of %s does not have %s", RulesFile, f.Source.Familiar())
			f.Reason = why.Error()
			s.res.Rejected = append(s.res.Rejected, f)
			if f.Confidence.Mirrored() {
				s.fault(fault{file: f.File, line: f.Line, text: f.Written, err: why, hard: true})
			} else {
				s.warn("%s:%d: %s, which may be an image, is left out: %v", f.File, f.Line, f.Reference.Familiar(), why)
			}
			continue
		}
		kept = append(kept, f)
	}
	s.res.Found = kept
}

// allowed reports whether the user's rules let f be mirrored from where it comes
// from.
func (s *scanner) allowed(f Finding) bool {
	if len(s.rules.allowed) == 0 || s.res.isPrivate(f) {
		return true
	}
	return slices.ContainsFunc(f.Source.Scopes(), func(scope string) bool { return slices.Contains(s.rules.allowed, scope) })
}

func (s *scanner) ignoredBy(f Finding) *ignoreRule {
	for i := range s.rules.ignores {
		if s.rules.ignores[i].matches(f) {
			return &s.rules.ignores[i]
		}
	}
	return nil
}

// glob reports whether s matches pattern, in which * stands for any text,
// slashes too. Its cost is bounded by len(pattern)*len(s).
func glob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}
