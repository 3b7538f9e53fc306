package cluster

import (
	"cmp"
	"encoding/base64"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// A redactor takes secrets out of text: values that are known, and whatever
// stands where secrets usually stand. It rather takes too much.
type redactor struct{ known *strings.Replacer }

// redacted stands in the place of a secret.
const redacted = "<redacted>"

// secretName matches the names of things that are secret, such as DB_PASSWORD,
// client-key-data, certificateKey, auth.
const secretName = `[A-Za-z0-9_.-]*(?:passw|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|client-key-data|credential|certificate-?key|\bauth\b|authorization)[A-Za-z0-9_.-]*`

// secretShapes are the places, with the part before the secret as the first
// group.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	regexp.MustCompile(`(?i)(--?(?:` + secretName + `)\s+)[^\s"'-][^\s"']*`), // --password VALUE
	regexp.MustCompile(`(?i)(` + secretName + `\\*["']?\s*[:=]\s*)(?:\\"(?:[^"\\]|\\[^"])*(?:\\")?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;}"']+)`),
	regexp.MustCompile(`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), // a token of kubeadm
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	regexp.MustCompile(`(://)[^/\s:@"]*:[^/\s@"]+@`),
}

// shortest is the length of the shortest known value that is taken out: a
// shorter one occurs everywhere.
const shortest = 3

// newRedactor knows the secrets of Clusterfiles.
func newRedactor(files ...*spec.File) *redactor {
	var values []string
	from := sources()
	for _, f := range files {
		for _, s := range f.Secrets() {
			if v, err := s.Resolve(from); err == nil {
				values = append(values, v)
			}
		}
		for _, line := range slices.Concat(f.Cluster.Env, f.Cluster.CmdArgs) {
			k, v, _ := strings.Cut(line, "=")
			if spec.HasReference(v) {
				if v, err := from.Expand(v); err == nil {
					values = append(values, v)
				}
			} else if regexp.MustCompile(`(?i)^` + secretName + `$`).MatchString(k) {
				values = append(values, v)
			}
		}
	}
	values = append(values, os.Getenv("SEALER_SSH_PASSWORD"))
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(values) {
		if len(v) >= shortest {
			pairs = append(pairs, v, redacted, base64.StdEncoding.EncodeToString([]byte(v)), redacted)
		}
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

// text returns s without secrets.
func (r *redactor) text(s string) string {
	s = r.known.Replace(s)
	for _, shape := range secretShapes {
		s = shape.ReplaceAllString(s, "${1}"+redacted)
	}
	return s
}
