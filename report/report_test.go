package report

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/net/html"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/printable"
)

// hostile are texts that an image, an annotation or a file name may have.
var hostile = []string{
	`</script><script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`javascript:alert(1)`,
	`</style></title></svg><svg onload=alert(1)>`,
	"`;alert(1)//${x}",
	`{{.}}<!--`,
	"\u009b31m\x1b]0;x\x07\u202egnp.exe\u2066\u200b\x80\xff",
	"]]><a href=//evil.example>",
}

// filled returns a report whose every text is hostile.
func filled(text string) *Report {
	r := &Report{}
	fill(reflect.ValueOf(r).Elem(), text)
	r.Image.Platforms = append(r.Image.Platforms, Platform{Name: text})
	r.Image.Registries[0].Name = r.Image.Mirrored[0].Registry
	r.Change.Images = append(r.Change.Images, Difference{Kind: "changed", Name: text, From: text, To: text})
	for range placesShown + 3 {
		r.Image.Mirrored[0].Found = append(r.Image.Mirrored[0].Found, r.Image.Mirrored[0].Found[0])
	}
	return r
}

func fill(v reflect.Value, text string) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(100_000_000)
	}
}

// A page with hostile texts everywhere has the elements of a harmless one, and no
// attribute that acts.
func TestHostileText(t *testing.T) {
	t.Parallel()
	want := elements(t, filled("plain text"))
	for _, text := range hostile {
		r := filled(text)
		if got := elements(t, r); got != want {
			t.Errorf("%q: elements differ:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// elements lists the elements of the page of r with the names of their
// attributes, apart from the texts of the drawing, which are clipped.
func elements(t *testing.T, r *Report) string {
	t.Helper()
	page, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range string(page) {
		if printable.Escapes(c) {
			t.Errorf("U+%04X at %d", c, i)
		}
	}
	var out strings.Builder
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return out.String()
		case html.CommentToken:
			t.Errorf("a comment: %s", z.Token())
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			fmt.Fprint(&out, tok.Data)
			for _, a := range tok.Attr {
				fmt.Fprint(&out, " ", a.Key)
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s has %s=%q", tok.Data, a.Key, a.Val)
				}
			}
			fmt.Fprintln(&out)
		}
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	page, err := HTML(filled("x"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var policy string
	var inline []string
	for n := range doc.Descendants() {
		switch {
		case n.Data == "meta" && attr(n, "http-equiv") == "Content-Security-Policy":
			policy = attr(n, "content")
			if n.PrevSibling != nil && n.PrevSibling.Data == "script" {
				t.Error("a script stands before the policy")
			}
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style"):
			inline = append(inline, n.Data+"-src '"+hash(n.FirstChild.Data)+"'")
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %q", policy)
	}
	if len(inline) != 2 {
		t.Errorf("%d inline parts", len(inline))
	}
	for _, want := range inline {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %s", policy, want)
		}
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// large is a report of n images, each found in several places.
func large(n int) *Report {
	i := &Image{Name: "registry.example/platform/bundle:v1", Digest: digest.FromString("x"), Type: "app-installer", Size: int64(n) * 100_000_000}
	i.Platforms = []Platform{{Name: "linux/amd64", Digest: digest.FromString("a"), Size: i.Size, Images: n, Layers: 3}}
	registries := []string{"docker.io", "quay.io", "registry.k8s.io", "ghcr.io", "registry.example:8443"}
	for _, name := range registries {
		i.Registries = append(i.Registries, Source{Name: name, Images: n / len(registries), Size: i.Size / int64(len(registries)), Own: i.Size / 6})
	}
	for k := range n {
		m := Mirrored{
			Reference: fmt.Sprintf("%s/team-%d/some-component-%d:v1.%d.0", registries[k%len(registries)], k%17, k, k%40), Registry: registries[k%len(registries)],
			Digest: digest.FromString(fmt.Sprint(k)), Platforms: []string{"linux/amd64", "linux/arm64/v8"}, Size: int64(k%97+1) * 3_000_000, Own: int64(k%89+1) * 2_000_000, Signatures: k % 2, SBOMs: k % 3,
		}
		for p := range k%6 + 1 {
			m.Found = append(m.Found, image.Provenance{File: fmt.Sprintf("charts/component-%d/templates/deployment-%d.yaml", k, p), Line: 10 + p, Object: fmt.Sprintf("Deployment/team-%d/component-%d", k%17, k), Values: "image.repository"})
		}
		i.Mirrored = append(i.Mirrored, m)
	}
	i.Shared = []Shared{{Images: []string{i.Mirrored[0].Reference, i.Mirrored[1].Reference}, Size: 40_000_000}}
	i.Layers = []Layer{{Platforms: []string{"linux/amd64"}, ID: digest.FromString("l"), Type: "COPY", Value: "charts charts", Size: 50_000_000, Files: 60_000_000}}
	i.Gaps = []Gap{{[]string{"linux/amd64"}, image.Gap{Grade: image.GapOpen, Rule: "chart", File: "charts/x/Chart.yaml", Line: 3, Reason: "a dependency is missing", Remedy: "helm dependency build"}}}
	i.Commands = []Command{{"image", "helm install bundle charts/bundle -n bundle --create-namespace"}}
	for k := range 400 {
		i.Software.Packages = append(i.Software.Packages, Package{Name: fmt.Sprintf("package-%d", k), Version: "1.0", License: "MIT", Images: []string{i.Mirrored[k%n].Reference}})
	}
	i.Software.Licenses = []License{{"MIT", 400, n / 3}}
	return &Report{Title: i.Name, Image: i, Version: "v1"}
}

func TestSizeOfLargeReport(t *testing.T) {
	t.Parallel()
	page, err := HTML(large(500))
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 3_000_000 {
		t.Errorf("%d bytes", len(page))
	}
	again, err := HTML(large(500))
	if err != nil || !bytes.Equal(page, again) {
		t.Errorf("two reports differ, %v", err)
	}
	t.Logf("%d bytes", len(page))
}

// Tables that are cut say so.
func TestRowsAreCounted(t *testing.T) {
	t.Parallel()
	r := large(2)
	r.Change = &Change{}
	for k := range maxFiles + 7 {
		r.Change.Files = append(r.Change.Files, Difference{Kind: "added", Name: fmt.Sprint("f", k)})
	}
	page, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("And 7 more files")) || bytes.Contains(page, []byte(">f1000<")) {
		t.Error("the table of files is not cut, or the rest is not counted")
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 12: "12", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := group3(n); got != want {
			t.Errorf("group3(%d) = %s", n, got)
		}
	}
	if got := cut("äöü", 2); got != "äö…" {
		t.Error(got)
	}
}
