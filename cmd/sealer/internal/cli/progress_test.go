package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/remote"
)

// halfway is a transfer of 120 MB after 4 seconds, with three blobs open.
func halfway(now time.Time) *moving {
	m := newMoving(now.Add(-4 * time.Second))
	for i, name := range []string{"registry.k8s.io/ingress-nginx/controller:v1.11.2", "docker.io/library/nginx:1.27", ""} {
		m.add(remote.Event{Op: "fetch", Reference: name, Digest: digest.FromString(name), Size: 50e6, Done: int64(20e6 * (i + 1)), Total: 120e6}, now.Add(time.Duration(i-2)*time.Second))
	}
	return m
}

// The line fits every width, and has the bytes at all of them.
func TestProgressLineFits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := halfway(now)
	for width := 20; width <= 200; width++ {
		got := m.line(width, now)
		if n := utf8.RuneCountInString(got); n > width {
			t.Errorf("%d: %d characters: %s", width, n, got)
		}
		if !strings.Contains(got, "60.0 MB of 120.0 MB") {
			t.Errorf("%d: %s", width, got)
		}
		for least, part := range map[int]string{39: "15.0 MB/s  4s left", 72: "###", 80: "roller:v1.11.2 +2", 90: "controller:", 120: "registry.k8s.io/ingress-nginx/controller:v1.11.2 +2"} {
			if width >= least && !strings.Contains(got, part) {
				t.Errorf("%d lacks %q: %s", width, part, got)
			}
		}
	}
	for _, width := range []int{-1, 0, 1} {
		if got := m.line(width, now); utf8.RuneCountInString(got) > max(width, 0) {
			t.Errorf("%d: %q", width, got)
		}
	}
	if got := newMoving(now).line(80, now); got != "…" {
		t.Errorf("before the first byte: %q", got)
	}
	if got := m.text(plainColumns, now.Add(time.Minute)); !strings.Contains(got, " 0 B/s") || strings.Contains(got, "left") {
		t.Errorf("after a minute without a byte: %s", got)
	}
}

func TestProgressSum(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := newMoving(now)
	for i, op := range []string{"exists", "push", "mount", "push", "manifest"} {
		m.add(remote.Event{Op: op, Digest: digest.FromString(op), Finished: true, Done: int64(i+1) * 1e6, Total: 5e6}, now.Add(time.Duration(i)*20*time.Second))
	}
	if got, want := m.sum(), "2.0 MB sent, 1.0 MB mounted from other repositories there, 1.0 MB there already, 1.0 MB done in 1m20s"; got != want {
		t.Errorf("%q", got)
	}
	if got := halfway(now).sum(); got != "60.0 MB fetched in 4s, of 120.0 MB" {
		t.Errorf("%q", got)
	}
}

// Events are few, however many pieces a blob comes in, and each has its time and
// the image.
func TestProgressJSONIsThrottled(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := (&app{Streams: Streams{Err: &out}, raw: Streams{Err: &out}, progress: "json"}).newProgress(false)
	for done := int64(1000); done <= 1e6; done += 1000 {
		p.transfer(remote.Event{Op: "fetch", Reference: "docker.io/library/nginx:1", Digest: "sha256:0", Size: 1e6, Finished: done == 1e6, Done: done, Total: 2e6})
	}
	p.transfer(remote.Event{Op: "fetch", Reference: "docker.io/library/nginx:1", Digest: "sha256:1", Size: 1e6, Finished: true, Done: 2e6, Total: 2e6})
	p.Close()
	var events []map[string]any
	for s := bufio.NewScanner(&out); s.Scan(); {
		var e map[string]any
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, e["time"].(string)); err != nil {
			t.Error(err)
		}
		if e["op"] == "fetch" && e["reference"] != "docker.io/library/nginx:1" {
			t.Errorf("%v", e)
		}
		events = append(events, e)
	}
	if len(events) < 4 || len(events) > 20 {
		t.Errorf("%d events", len(events))
	}
	if sum := events[len(events)-1]; sum["op"] != "sum" || sum["bytes"].(map[string]any)["fetch"] != 2e6 {
		t.Errorf("the last event is %v", sum)
	}
}

func TestRoughly(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{900 * time.Millisecond: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 3 * time.Hour: "3h00m"} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}
