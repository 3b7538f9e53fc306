package chart

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/registry/ref"
)

// maxWhole bounds an index that is decoded as a whole, in bytes: a decoded one
// takes fifty times its size.
const maxWhole = 8 << 20

// An index is the index.yaml of a repository, and the charts that were looked
// up in it.
type index struct {
	text   []byte
	charts map[string][]entry
}

// An entry is one version of a chart.
type entry struct {
	version string
	urls    []string
	digest  digest.Digest // of the archive, "" when the index announces none
}

// An indexEntry is what is read of an entry.
type indexEntry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
	Removed bool     `json:"removed"`
}

// entry returns the entry of the index that s, or the pin, names.
func (f *Fetcher) entry(ctx context.Context, s Source, pin Pin) (entry, error) {
	x, ok := f.indexes[s.Repository]
	if !ok {
		text, err := f.file(ctx, s, s.Repository+"/index.yaml", MaxIndex)
		if err != nil {
			return entry{}, err
		}
		x = &index{text: text, charts: map[string][]entry{}}
		f.indexes[s.Repository] = x
	}
	entries, err := x.chart(s.Name)
	if err != nil {
		return entry{}, err
	}
	want := s.Version
	if pin.Version != "" {
		want = pin.Version
	}
	var versions []string
	for _, e := range entries {
		versions = append(versions, e.version)
	}
	if len(versions) == 0 {
		return entry{}, fmt.Errorf("%w: the repository has no chart %s", ErrNoVersion, s.Name)
	}
	version, err := choose(versions, want, func(v string) string { return v })
	if err != nil {
		return entry{}, err
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.version == version })
	if len(entries[i].urls) == 0 {
		return entry{}, fmt.Errorf("version %s has no URL", version)
	}
	return entries[i], nil
}

// chart returns the entries of a chart, decoded.
func (x *index) chart(name string) ([]entry, error) {
	if out, ok := x.charts[name]; ok {
		return out, nil
	}
	var list []indexEntry
	if part := section(x.text, name); part != nil && yaml.Unmarshal(part, &list) == nil {
		x.charts[name] = entries(list)
		return x.charts[name], nil
	}
	if len(x.text) > maxWhole {
		return nil, nil // a file of this size in another form than Helm's
	}
	var whole struct {
		Entries map[string][]indexEntry `json:"entries"`
	}
	if err := yaml.Unmarshal(x.text, &whole); err != nil {
		return nil, fmt.Errorf("index.yaml: %.300s", err.Error())
	}
	x.charts[name] = entries(whole.Entries[name])
	return x.charts[name], nil
}

func entries(list []indexEntry) (out []entry) {
	for _, e := range list {
		d := digest.Digest(e.Digest)
		if !strings.Contains(e.Digest, ":") {
			d = digest.Digest("sha256:" + e.Digest)
		}
		if e.Digest == "" || !ref.IsSHA256(d) {
			d = ""
		}
		if !e.Removed {
			out = append(out, entry{e.Version, e.URLs, d})
		}
	}
	return out
}

// section returns the list of one chart out of an index in the form that Helm
// writes, without decoding the rest; nil when it is not there, or in another
// form.
func section(text []byte, name string) []byte {
	start := regexp.MustCompile(`(?m)^entries:[ \t]*(?:#.*)?\r?\n`).FindIndex(text)
	if start == nil {
		return nil
	}
	key := regexp.MustCompile(`(?m)^( +)["']?` + regexp.QuoteMeta(name) + `["']?:[ \t]*\r?\n`)
	rest := text[start[1]:]
	first := bytes.IndexFunc(rest, func(r rune) bool { return r != ' ' })
	for _, m := range key.FindAllSubmatchIndex(rest, -1) {
		indent := m[3] - m[2]
		if indent != first {
			continue // a key of another level
		}
		end := len(rest)
		for at := m[1]; at < len(rest); {
			eol := bytes.IndexByte(rest[at:], '\n')
			if eol < 0 {
				break
			}
			line := rest[at : at+eol]
			depth := len(line) - len(bytes.TrimLeft(line, " "))
			if body := bytes.TrimSpace(line); len(body) > 0 && depth <= indent && !(depth == indent && body[0] == '-') && body[0] != '#' {
				end = at
				break
			}
			at += eol + 1
		}
		return rest[m[1]:end]
	}
	return nil
}

// choose returns the version that Helm would take for want: the one that is
// written so, else the highest in the range. "" takes the highest that is no
// prerelease. plain makes a version of an element.
func choose(list []string, want string, plain func(string) string) (string, error) {
	type candidate struct {
		text   string
		parsed *semver.Version
	}
	var all []candidate
	for _, text := range list {
		text = plain(text)
		if text == want && want != "" {
			if _, err := semver.NewVersion(text); err == nil {
				return text, nil
			}
		}
		if v, err := semver.NewVersion(text); err == nil {
			all = append(all, candidate{text, v})
		}
	}
	if want == "" {
		want = "*"
	}
	in, err := semver.NewConstraint(want)
	if err != nil {
		return "", fmt.Errorf("%w: %q is no version and no range", ErrNoVersion, want)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.parsed.Compare(a.parsed) })
	for _, c := range all {
		if in.Check(c.parsed) {
			return c.text, nil
		}
	}
	near := "there is none"
	if len(all) > 0 {
		near = "the newest is " + all[0].text
	}
	return "", fmt.Errorf("%w: none in %q; %s", ErrNoVersion, want, near)
}
