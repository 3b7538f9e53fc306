package report

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterimage/sealer/image"
)

// sample is a report with every part.
func sample() *Report {
	r := large(24)
	r.Image.Software.Packages = r.Image.Software.Packages[:12]
	r.Title = "bundle:v1 to bundle:v2"
	r.Image.Missing = []Missing{{Platform: "linux/arm64", Reference: "quay.io/acme/agent:v2", Why: "tag v2 was not mirrored", Found: r.Image.Mirrored[1].Found}}
	r.Image.Listed = []Mirrored{{Reference: "docker.io/library/busybox:1", Why: "optional", Found: r.Image.Mirrored[2].Found}}
	r.Image.Attached = []Attached{{Reference: r.Image.Mirrored[1].Reference, Kind: "signature", Digest: r.Image.Digest}}
	r.Image.Apps = []image.Application{{Name: "shop", Type: "helm", Files: []string{"application/apps/shop"}, Cmds: []string{"helm install shop ."}}}
	r.Change = &Change{
		From: "bundle:v1", To: "bundle:v2", FromDigest: r.Image.Digest, Blobs: 12, Size: 61_000_000, Whole: r.Image.Size,
		Images:   []Difference{{Kind: "added", Name: "acme/new:v1", To: "sha256:ab", Size: 60_000_000}, {Kind: "removed", Name: "acme/old:v1", From: "sha256:cd", Size: 5}, {Kind: "changed", Name: "acme/same:v1", From: "sha256:01", To: "sha256:02", Size: 1_000_000}},
		Commands: []Difference{{Kind: "added", Name: "helm upgrade bundle"}},
		Files:    []Difference{{Kind: "changed", Name: "manifests/app.yaml", From: "-rw-r--r-- 12 bytes", To: "-rw-r--r-- 14 bytes"}},
	}
	began := time.Unix(1_800_000_000, 0)
	r.Cluster = &Cluster{Name: "edge", Images: []string{"bundle:v2"}, Verb: "create", Hosts: []Host{{Address: "10.0.0.1", Done: 9, Failed: 1, Began: began, Ended: began.Add(time.Minute)}}}
	for k := range 10 {
		r.Cluster.Steps = append(r.Cluster.Steps, Step{Number: k + 1, Host: "10.0.0.1", Kind: "unit", Risk: "adds", Why: "kubelet does not run", State: StepDone, Began: began, Took: time.Duration(k) * time.Second})
	}
	r.Cluster.Steps[9].State, r.Cluster.Steps[9].Error = StepFailed, "exit status 1"
	r.Cluster.Proof = &Proof{Time: began, Pods: 2, Nodes: 1, Containers: []Container{{Where: "pod kube-system/etcd-n1", Name: "etcd", Node: "n1", Reference: "registry.k8s.io/etcd:3.6", Digest: r.Image.Digest, ClusterImage: "bundle:v2", Mirrored: "registry.k8s.io/etcd:3.6"}}, Strangers: []Container{{Where: "pod default/x", Reference: "docker.io/library/x:1", Why: "it runs an image that no ClusterImage carried"}}}
	return r
}

func writePage(t *testing.T, name string, r *Report) string {
	t.Helper()
	page, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	in := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			f(t)
		})
	}
	page := writePage(t, "sample.html", sample())
	in("no request", func(t *testing.T) { b.loadsNothing(t, page) })
	in("sort", func(t *testing.T) { b.sorts(t) })
	in("filter", func(t *testing.T) { b.filters(t) })
	in("no network", func(t *testing.T) { b.isShut(t) })
	in("narrow", func(t *testing.T) { b.fits(t) })
	in("hostile", func(t *testing.T) { b.isHarmless(t) })
	in("without script", func(t *testing.T) { b.readsWithoutScript(t, page) })
	in("large", func(t *testing.T) {
		b.open(writePage(t, "large.html", large(500)))
		var took float64
		b.eval(`(() => { const n = performance.getEntriesByType('navigation')[0]; return n.loadEventEnd - n.startTime })()`, &took)
		t.Logf("500 images: loaded in %.0f ms", took)
	})
	in("accessible", func(t *testing.T) { b.passesAxe(t, page) })
	in("pictures", func(t *testing.T) { b.pictures(t, page) })
}

// loadsNothing opens a page and fails for every request but its own.
func (b *browser) loadsNothing(t *testing.T, url string) {
	b.open(url)
	for _, raw := range b.seen("Network.requestWillBeSent") {
		var p struct{ Request struct{ URL string } }
		if err := json.Unmarshal(raw, &p); err != nil || p.Request.URL != url {
			t.Errorf("a request for %s, %v", p.Request.URL, err)
		}
	}
	if n := len(b.seen("Network.requestWillBeSent")); n != 1 {
		t.Errorf("%d requests", n)
	}
	for _, raw := range slices.Concat(b.seen("Log.entryAdded"), b.seen("Runtime.exceptionThrown")) {
		t.Errorf("the browser complains: %s", raw)
	}
}

// column returns the texts of a column of the table with a caption.
func (b *browser) column(caption string, n int) (out []string) {
	b.eval(fmt.Sprintf(`Array.from(%s.tBodies[0].rows).filter(r => !r.hidden).map(r => r.cells[%d].dataset.v || r.cells[%d].textContent.trim())`, table(caption), n, n), &out)
	return out
}

func table(caption string) string {
	return fmt.Sprintf(`Array.from(document.querySelectorAll('table')).find(t => t.caption.textContent === %q)`, caption)
}

// sorts clicks and presses the buttons of a table's head.
func (b *browser) sorts(t *testing.T) {
	const images = "Container images inside"
	button := func(n int) string {
		return fmt.Sprintf(`%s.tHead.rows[0].cells[%d].querySelector('button')`, table(images), n)
	}
	before := b.column(images, 0)
	b.eval(button(1)+".focus()", nil)
	b.press("Enter", 13, "\r")
	sizes := b.column(images, 1)
	if !slices.IsSortedFunc(sizes, number) {
		t.Errorf("after Enter: %v", sizes)
	}
	var state string
	b.eval(button(1)+".parentNode.getAttribute('aria-sort')", &state)
	if state != "ascending" {
		t.Errorf("aria-sort %q", state)
	}
	b.press(" ", 32, " ")
	sizes = b.column(images, 1)
	slices.Reverse(sizes)
	if !slices.IsSortedFunc(sizes, number) || number(sizes[0], sizes[len(sizes)-1]) == 0 {
		t.Errorf("after Space: %v", sizes)
	}
	b.eval(button(0)+".click()", nil)
	var sorted int
	b.eval(table(images)+".querySelectorAll('th[aria-sort]').length", &sorted)
	if after := b.column(images, 0); sorted != 1 || slices.Equal(after, before) || len(after) != len(before) {
		t.Errorf("after a click on the name: %d columns are marked, %v", sorted, after)
	}
}

// number compares numbers that are written without signs.
func number(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func (b *browser) filters(t *testing.T) {
	const images = "Container images inside"
	input := table(images) + ".parentNode.previousElementSibling.querySelector('input')"
	all := len(b.column(images, 0))
	b.eval(input+".focus()", nil)
	b.call("Input.insertText", map[string]any{"text": "GHCR.io component-8"}, nil)
	got := b.column(images, 0)
	if len(got) != 1 || !strings.HasPrefix(got[0], "ghcr.io/team-8/some-component-8:") {
		t.Errorf("filtered: %q", got)
	}
	var told, label string
	b.eval(input+".nextElementSibling.textContent", &told)
	b.eval(input+".labels[0].textContent", &label)
	if told != fmt.Sprintf("1 of %d rows", all) || !strings.Contains(label, "container images inside") {
		t.Errorf("told %q, label %q", told, label)
	}
	b.eval(input+".value = ''; "+input+".dispatchEvent(new Event('input'))", nil)
	if n := len(b.column(images, 0)); n != all {
		t.Errorf("%d of %d rows are shown without a filter", n, all)
	}
}

// isShut tries to reach a server out of the page.
func (b *browser) isShut(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer s.Close()
	var refused bool
	b.eval(fmt.Sprintf(`fetch(%q, {mode: 'no-cors'}).then(() => false, () => true)`, s.URL), &refused)
	b.eval(fmt.Sprintf(`new Promise(done => { const i = new Image(); i.onerror = i.onload = () => done(true); i.src = %q; document.body.append(i) })`, s.URL), nil)
	if n := asked.Load(); n != 0 || !refused {
		t.Errorf("%d requests left the page; refused: %v", n, refused)
	}
}

// fits checks that the page does not scroll sideways as a whole.
func (b *browser) fits(t *testing.T) {
	for _, width := range []int{320, 400, 1280} {
		b.look(width, "light")
		var overflow int
		b.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
		if overflow > 0 {
			t.Errorf("%d pixels stick out at %d", overflow, width)
		}
	}
}

func (b *browser) isHarmless(t *testing.T) {
	for i, text := range hostile {
		b.loadsNothing(t, writePage(t, fmt.Sprintf("hostile-%d.html", i), filled(text)))
		if n := len(b.seen("Page.javascriptDialogOpening")); n > 0 {
			t.Errorf("%q: %d dialogues", text, n)
		}
		var rows int
		b.eval(`document.querySelectorAll('tbody tr').length`, &rows)
		if rows < 10 {
			t.Errorf("%q: %d rows", text, rows)
		}
	}
}

func (b *browser) readsWithoutScript(t *testing.T, url string) {
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(url)
	var doc struct {
		Root struct{ NodeID int }
	}
	b.call("DOM.getDocument", nil, &doc)
	var found struct{ OuterHTML string }
	b.call("DOM.getOuterHTML", map[string]any{"nodeId": doc.Root.NodeID}, &found)
	if strings.Contains(found.OuterHTML, "<button") || !strings.Contains(found.OuterHTML, "quay.io/team-6/some-component-6") {
		t.Error("the page without script lacks a row, or has buttons that do nothing")
	}
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
}

// passesAxe runs axe-core, which SEALER_AXE names as axe.min.js, in both colours.
func (b *browser) passesAxe(t *testing.T, url string) {
	file := os.Getenv("SEALER_AXE")
	if file == "" {
		t.Skip("axe-core is not run: SEALER_AXE names no axe.min.js (npm pack axe-core)")
	}
	axe, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{400, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			b.open(url)
			b.eval(string(axe)+"; 0", nil)
			var faults []string
			b.eval(`axe.run().then(r => (r.passes.length < 20 ? ['axe ran ' + r.passes.length + ' rules'] : []).concat(r.violations.flatMap(v => v.nodes.map(n => v.impact + ' ' + v.id + ': ' + n.target + ' ' + n.failureSummary))))`, &faults)
			for _, f := range faults {
				t.Errorf("%d %s: %s", width, scheme, f)
			}
		}
	}
}

// pictures writes screenshots to the directory of SEALER_SCREENSHOTS, to be looked at.
func (b *browser) pictures(t *testing.T, url string) {
	dir := os.Getenv("SEALER_SCREENSHOTS")
	if dir == "" {
		t.Skip("no pictures: SEALER_SCREENSHOTS names no directory")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{400, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			b.open(url)
			for part := range 4 {
				b.screenshot(filepath.Join(dir, fmt.Sprintf("%d-%s-%d.png", width, scheme, part)), part*1500, width, 1500)
			}
		}
	}
	var pdf struct{ Data []byte }
	b.look(1280, "dark")
	b.call("Page.printToPDF", map[string]any{"printBackground": false}, &pdf)
	if err := os.WriteFile(filepath.Join(dir, "print.pdf"), pdf.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}
