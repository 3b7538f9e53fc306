package report

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/printable"
)

//go:embed page.html style.css script.js
var assets embed.FS

// The most rows of the tables that may have a great many, and the longest text of
// a cell. The rest is counted.
const (
	maxFiles      = 1000
	maxPackages   = 1500
	maxContainers = 3000
	maxText       = 2000 // characters
	placesShown   = 3
)

// Write writes the page of r. Equal reports give equal bytes.
func Write(w io.Writer, r *Report) error {
	style, script, err := parts()
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	page, err := assets.ReadFile("page.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	t, err := template.New("page").Funcs(functions).Parse(string(page))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	buffer := bufio.NewWriter(w)
	out := printable.NewWriter(buffer)
	err = t.Execute(out, struct {
		*Report
		Style, Script template.HTML
		Policy        string
	}{
		r, template.HTML("<style>" + style + "</style>"), template.HTML("<script>" + script + "</script>"), //nolint:gosec // they are this package's own
		"default-src 'none'; style-src '" + hash(style) + "'; script-src '" + hash(script) + "'; base-uri 'none'; form-action 'none'",
	})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := errors.Join(out.Close(), buffer.Flush()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// parts returns the page's style and script.
func parts() (style, script string, err error) {
	s, err := assets.ReadFile("style.css")
	if err != nil {
		return "", "", err
	}
	j, err := assets.ReadFile("script.js")
	return string(s), string(j), err
}

// hash names an inline style or script in a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

var functions = template.FuncMap{
	"size":    size,
	"count":   func(n int, one, many string) string { return group3(n) + " " + plural(n, one, many) },
	"number":  group3,
	"time":    zeroless,
	"took":    took,
	"cut":     func(s string) string { return cut(s, maxText) },
	"hex":     hex,
	"join":    strings.Join,
	"wide":    func(i *Image) drawing { return drawing{1200, 520, treemap(i.groups(), 1200, 520)} },
	"narrow":  func(i *Image) drawing { return drawing{400, 560, treemap(i.groups(), 400, 560)} },
	"line":    func(y float64, i int) float64 { return y + float64(i+1)*lineHeight - 1 },
	"add":     func(a, b float64) float64 { return a + b },
	"percent": percent,
	"places":  splitPlaces,
	"at":      at,
	"gapAt":   func(g Gap) string { return at(image.Provenance{File: g.File, Line: g.Line}) },
	"first":   first,
	"rest":    rest,
	"sign": func(kind string) string {
		return map[string]string{"added": "+", "removed": "−", "changed": "~"}[kind]
	},
	"files": func() int { return maxFiles },
	"pkgs":  func() int { return maxPackages },
	"most":  func() int { return maxContainers },
}

// A drawing is a treemap with its bounds.
type drawing struct {
	W, H  int
	Boxes []box
}

// A foundAt is the places of an image: the first, and those that a click shows.
type foundAt struct{ First, More []image.Provenance }

func splitPlaces(list []image.Provenance) foundAt {
	n := min(len(list), placesShown)
	if len(list) == n+1 {
		n++
	}
	return foundAt{list[:n], list[n:]}
}

// at is file:line.
func at(p image.Provenance) string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// hex is the begin of a digest, which a cluster may have reported in any form.
func hex(d digest.Digest) string {
	_, text, _ := strings.Cut(string(d), ":")
	return text[:min(12, len(text))]
}

// first returns at most n items of a list.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

// rest counts the items of a list that first leaves out.
func rest(n int, list any) int { return max(reflect.ValueOf(list).Len()-n, 0) }

// percent is part of whole, for an attribute.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + "%"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// group3 writes a number with its digits in threes.
func group3(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.Round(100 * time.Millisecond).String()
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n]) + "…"
}

// size prints bytes in powers of 1000, as disks are labelled.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}

// HTML returns the page of r.
func HTML(r *Report) ([]byte, error) {
	var b bytes.Buffer
	err := Write(&b, r)
	return b.Bytes(), err
}
