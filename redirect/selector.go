package redirect

import (
	"fmt"
	"regexp"
	"strings"
)

// A requirement is one matchExpressions entry of a Kubernetes label selector.
type requirement struct {
	Key, Operator string // In, NotIn, Exists, DoesNotExist
	Values        []string
}

var (
	labelKey   = `(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?`
	labelValue = `[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?`
	oneKey     = regexp.MustCompile(`^(!?)\s*(` + labelKey + `)$`)
	equality   = regexp.MustCompile(`^(` + labelKey + `)\s*(==|=|!=)\s*(` + labelValue + `)?$`)
	membership = regexp.MustCompile(`^(` + labelKey + `)\s+(in|notin)\s*\(\s*([^()]*?)\s*\)$`)
	oneValue   = regexp.MustCompile(`^` + labelValue + `$`)
)

// parseSelector reads a label selector in the syntax of kubectl: terms
// "key=value", "key!=value", "key in (a,b)", "key notin (a,b)", "key", "!key",
// joined by commas.
func parseSelector(s string) ([]requirement, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var out []requirement
	for _, term := range splitTerms(s) {
		term = strings.TrimSpace(term)
		if m := oneKey.FindStringSubmatch(term); m != nil {
			out = append(out, requirement{Key: m[2], Operator: map[string]string{"": "Exists", "!": "DoesNotExist"}[m[1]]})
			continue
		}
		if m := equality.FindStringSubmatch(term); m != nil {
			operator := "In"
			if m[2] == "!=" {
				operator = "NotIn"
			}
			out = append(out, requirement{Key: m[1], Operator: operator, Values: []string{m[3]}})
			continue
		}
		m := membership.FindStringSubmatch(term)
		if m == nil {
			return nil, fmt.Errorf("namespace selector %q: %q is no term such as key=value, key!=value, key in (a,b), key or !key", s, term)
		}
		r := requirement{Key: m[1], Operator: map[string]string{"in": "In", "notin": "NotIn"}[m[2]]}
		for _, v := range strings.Split(m[3], ",") {
			if v = strings.TrimSpace(v); !oneValue.MatchString(v) {
				return nil, fmt.Errorf("namespace selector %q: %q is no label value", s, v)
			}
			r.Values = append(r.Values, v)
		}
		out = append(out, r)
	}
	return out, nil
}

// splitTerms splits s at the commas outside parentheses.
func splitTerms(s string) []string {
	var terms []string
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			terms = append(terms, s[start:i])
			start = i + 1
		}
	}
	return append(terms, s[start:])
}
