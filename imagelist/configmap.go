package imagelist

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// documentation are keys of a ConfigMap whose text is for people, or an
// example: knative's _example.
var documentation = regexp.MustCompile(`(?i)^_|^(readme|notes|changelog|license|copying)\b|\.(md|markdown|rst|adoc|html?|css|js|svg|lua|promql|rules|example|sample|bak|orig)$`)

// configMap looks at the values of a ConfigMap: single settings, and files.
func (s *scanner) configMap(p place, n *yaml.Node) {
	s.settings(p, get(n, "data"), "data")
}

// secret looks at the plain texts of a Secret. An encoded text may be the settings
// of a program too, as a chart makes one, but says less surely that it is used.
func (s *scanner) secret(p place, n *yaml.Node) {
	s.settings(p, get(n, "stringData"), "stringData")
	limit := Low
	if p.rendered {
		limit = Medium
	}
	p.limit = limit.weaker(p.limit)
	for _, e := range entries(get(n, "data")) {
		if !isScalar(e.value) || documentation.MatchString(e.key) || len(e.value.Value) > maxDocument {
			continue
		}
		plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.value.Value))
		if err != nil || !utf8.Valid(plain) || !strings.Contains(string(plain), "image") {
			continue
		}
		s.embedded(p, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: string(plain), Line: e.value.Line}, atKey("data", e.key))
	}
}

// settings looks at a map of names to texts.
func (s *scanner) settings(p place, data *yaml.Node, path string) {
	var single []pair
	for _, e := range entries(data) {
		if !isScalar(e.value) || documentation.MatchString(e.key) {
			continue
		}
		v := strings.TrimSpace(e.value.Value)
		if strings.Contains(e.value.Value, "\n") || strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") || strings.HasSuffix(e.key, ".yaml") || strings.HasSuffix(e.key, ".json") {
			s.embedded(p, e.value, atKey(path, e.key))
			continue
		}
		single = append(single, pair{e.key, v, e.value.Line, atKey(path, e.key)})
	}
	used := s.composed(p, single, "configmap-split")
	for _, v := range single {
		switch {
		case used[v.key]:
		case strings.ContainsAny(v.value, ",; ") && speaksOfImage(v.key):
			s.references(p, v, true, "configmap")
		case speaksOfImage(v.key):
			s.setting(p, v, "configmap")
		default:
			if r, ok := hosted(v.value); ok {
				s.found(p, spot{v.line, v.field, v.value, "configmap-value"}, Medium, r)
			}
		}
	}
}

// embedded looks into a string that may hold a document: YAML, JSON, or
// settings line by line (TOML, INI, properties, scripts).
func (s *scanner) embedded(p place, n *yaml.Node, field string) {
	if n == nil || p.embedded >= maxEmbedded || len(n.Value) > maxDocument || !strings.Contains(n.Value, "\n") && len(n.Value) < 4 {
		return
	}
	docs, faults := inside(&p, n, field)
	for _, d := range docs {
		q := p
		q.base += d.line
		s.embeddedDocument(q, d.node)
	}
	if len(docs) == 0 || len(faults) > 0 {
		s.lines(p, n.Value)
	}
}

// inside returns the maps and lists in a string, and makes p their place.
func inside(p *place, n *yaml.Node, field string) ([]document, []docError) {
	p.embedded++
	p.prefix += field + ":"
	if isLiteral(n) {
		p.base += n.Line
	} else {
		p.fixed = n.Line
	}
	docs, faults := documents(blankActions([]byte(n.Value)))
	return slices.DeleteFunc(docs, func(d document) bool {
		return check(d.node) != nil || !isMap(d.node) && !isSeq(d.node)
	}), faults
}

// mayHoldPods reports whether a string is a block that may have a pod spec in
// it: the template of an agent, a manifest.
func mayHoldPods(s string) bool {
	return strings.Contains(s, "\n") && strings.Contains(s, "image") && strings.Contains(s, "ontainers")
}

// embeddedPods takes the pod specs of a document in a string whose key does
// not tell its kind.
func (s *scanner) embeddedPods(p place, n *yaml.Node, field string) {
	if p.embedded >= maxEmbedded || len(n.Value) > maxDocument {
		return
	}
	docs, _ := inside(&p, n, field)
	for _, d := range docs {
		q := p
		q.base += d.line
		if q.limit == "" {
			q.limit = High
		}
		s.podSpecsIn(q, d.node, "")
	}
}

// embeddedDocument looks at one YAML or JSON value inside a string.
func (s *scanner) embeddedDocument(p place, n *yaml.Node) {
	if text(n, "kind") != "" && text(n, "apiVersion") != "" {
		if p.limit == "" {
			p.limit = High
		}
		s.object(p, n, "")
		return
	}
	w := walker{s: s, p: p}
	if isSeq(n) && s.jsonPatch(p, n) {
		return
	}
	if p.images { // of a variable that speaks of images: each value is one
		w.value(entry{key: "images", value: n}, "", inherited{}, 0)
		return
	}
	if isSeq(n) {
		w.list(entry{key: "", value: n}, "", inherited{}, 0)
		return
	}
	w.fields(n, "", "", inherited{}, 0)
}

var assignment = regexp.MustCompile(`^[\s-]*(?:export\s+|set\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*(?:=|:)\s*["']?([^\s"',;]+)["']?\s*[,;]?\s*(?:[#;].*)?$`)

// property is a line of Java properties that white space divides; only those
// with a dotted key are told from a sentence.
var property = regexp.MustCompile(`^\s*([A-Za-z_][\w-]*(?:\.[\w-]+)+)\s+(\S+)\s*$`)

// lines looks at a text that is neither YAML nor JSON: settings, one a line,
// and the words of commands.
func (s *scanner) lines(p place, text string) {
	var all []pair
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimRight(l, "\r\n")
		trimmed := strings.TrimSpace(l)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, ";") {
			continue
		}
		s.quotedDocument(p, l, n)
		m := assignment.FindStringSubmatch(l)
		if m == nil {
			m = property.FindStringSubmatch(l)
		}
		if m != nil {
			all = append(all, pair{m[1], m[2], n, m[1]})
			continue
		}
		if strings.Contains(l, "image") {
			s.flags(p, scriptWords(l, n, "", false), "script")
		}
	}
	var split []pair
	for _, a := range all {
		if of, _ := roleOf(a.key); of != "" { // bare "repository" and "tag" may be lines of different sections
			split = append(split, a)
		}
	}
	used := s.composed(p, split, "text-split")
	for _, a := range all {
		if used[a.key] {
			continue
		}
		if !speaksOfImage(a.key) {
			if r, ok := hosted(a.value); ok && !isJudged(a.key) {
				s.found(p, spot{a.line, a.field, a.value, "text-value"}, Medium, r)
			}
			continue
		}
		if v := judge(a.key, a.value); v.confidence == High && (isImageKey(a.key) || strings.Contains(a.value, "/")) {
			s.add(p, spot{a.line, a.field, a.value, "text"}, High)
		} else if v.reason != "" && strings.ContainsAny(a.value, "/:") {
			s.reject(p, spot{a.line, a.field, a.value, "text"}, v.reason)
		}
	}
}

// quotedDocument looks at a JSON document that stands as a text in a line of a
// program: json.loads("{\"image\": …}").
func (s *scanner) quotedDocument(p place, l string, line int) {
	i := strings.Index(l, `"{\"`)
	if i < 0 || !strings.Contains(l[i:], "image") {
		return
	}
	var text string
	if json.NewDecoder(strings.NewReader(l[i:])).Decode(&text) == nil {
		s.embedded(p, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: text, Line: line}, "")
	}
}

var commentedDefault = regexp.MustCompile(`^\s*#+\s*(?:- )?["']?([A-Z][A-Z0-9_]*IMAGE[A-Z0-9_]*)["']?\s*:\s*["']?([^\s"']+)["']?\s*$`)

var commentedGap = cause{Doubtful, "commented", "commented out: the program pulls the image that is compiled into it, perhaps this one",
	"add it to manifests/imageList if the program uses it, " + declare}

// commentedDefaults names the settings of images that a file has commented
// out: the program then uses the images that are compiled into it.
func (s *scanner) commentedDefaults(name string, data []byte) {
	n := 0
	for l := range strings.Lines(string(data)) {
		n++
		if !strings.Contains(l, "IMAGE") || !strings.Contains(l, "#") {
			continue
		}
		m := commentedDefault.FindStringSubmatch(strings.TrimRight(l, "\r\n"))
		if m == nil {
			continue
		}
		if v := judge(m[1], m[2]); v.confidence == High {
			s.addGap(commentedGap, Gap{Subject: name, File: name, Line: n, Field: m[1], Text: m[2]})
		}
	}
}
