package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/remote"
)

// A moving is one transfer while it goes on. It is safe for concurrent use.
type moving struct {
	mu      sync.Mutex
	began   time.Time
	latest  time.Time // of the last event
	last    remote.Event
	by      map[string]int64 // bytes, by operation
	open    []openBlob       // that have begun and are not done, oldest first
	samples []sample         // of the last rateWindow
}

type openBlob struct {
	digest    digest.Digest
	reference string
}

type sample struct {
	at   time.Time
	done int64
}

const (
	// rateWindow is the time over which the rate is measured.
	rateWindow = 5 * time.Second
	// plainColumns bounds the lines of a log.
	plainColumns = 120
	// leastWithBar is the width from which on there is room for a bar.
	leastWithBar = 72
	barColumns   = 30
	leastName    = 12
)

func newMoving(now time.Time) *moving {
	return &moving{began: now, latest: now, by: map[string]int64{}, samples: []sample{{now, 0}}}
}

// isOver reports whether e belongs to another transfer, which begins anew.
func (m *moving) isOver(e remote.Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.Done < m.last.Done && e.Total > 0 && m.last.Done >= m.last.Total
}

// add takes over an event. Events of several blobs may come out of order: the bytes
// never go back.
func (m *moving) add(e remote.Event, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latest = now
	m.open = slices.DeleteFunc(m.open, func(b openBlob) bool { return b.digest == e.Digest })
	if !e.Finished && e.Digest != "" {
		m.open = append(m.open, openBlob{e.Digest, e.Reference})
	}
	if e.Total == 0 {
		return // of no blob
	}
	if grown := e.Done - m.last.Done; grown > 0 {
		m.by[e.Op] += grown
		m.last = e
	}
	m.last.Total = max(m.last.Total, e.Total)
	m.samples = append(m.samples, sample{now, m.last.Done})
	m.forget(now)
}

// forget drops the samples before the window, but for the last of them.
func (m *moving) forget(now time.Time) {
	for len(m.samples) > 1 && now.Sub(m.samples[1].at) > rateWindow {
		m.samples = m.samples[1:]
	}
}

// rate is in bytes a second, over the last rateWindow.
func (m *moving) rate(now time.Time) float64 {
	m.forget(now)
	span := now.Sub(m.samples[0].at).Seconds()
	if span <= 0 {
		return 0
	}
	return float64(m.last.Done-m.samples[0].done) / span
}

func (m *moving) total() int64 { m.mu.Lock(); defer m.mu.Unlock(); return m.last.Total }

func (m *moving) took() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest.Sub(m.began)
}

// bytes returns the bytes by operation.
func (m *moving) bytes() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int64{}
	for op, n := range m.by {
		out[op] = n
	}
	return out
}

// text describes the state in at most width characters, as far as the numbers
// allow: bytes, rate, time left, and what is waited for. It is "" before the sizes
// are known.
func (m *moving) text(width int, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.Total == 0 {
		return ""
	}
	out := fmt.Sprintf("%s of %s", size(m.last.Done), size(m.last.Total))
	for _, part := range m.parts(now) {
		if len(out)+2+len(part) > width {
			return out
		}
		out += "  " + part
	}
	if name, more := m.waitsFor(); name != "" {
		if room := width - len(out) - 2 - len(more); room >= min(leastName, utf8.RuneCountInString(name)) {
			out += "  " + withoutMiddle(name, room) + more
		}
	}
	return out
}

// parts are the rate and the time left.
func (m *moving) parts(now time.Time) []string {
	if m.last.Done >= m.last.Total {
		return nil // it is being written
	}
	rate := m.rate(now)
	out := []string{size(int64(rate)) + "/s"}
	if left := m.last.Total - m.last.Done; left > 0 && rate > 0 {
		if seconds := float64(left) / rate; seconds < 100*3600 {
			out = append(out, roughly(time.Duration(seconds*float64(time.Second)))+" left")
		}
	}
	return out
}

// waitsFor names the image, or the blob, that has been open for the longest time,
// and counts the others.
func (m *moving) waitsFor() (name, more string) {
	if len(m.open) == 0 {
		return "", ""
	}
	name = m.open[0].reference
	if name == "" {
		name = m.open[0].digest.String()
	}
	if n := len(m.open) - 1; n > 0 {
		more = fmt.Sprintf(" +%d", n)
	}
	return line(name), more
}

// line is text behind a bar, in at most width characters.
func (m *moving) line(width int, now time.Time) string {
	text := m.text(width, now)
	if text == "" {
		return withoutMiddle("…", width)
	}
	m.mu.Lock()
	part := float64(m.last.Done) / float64(m.last.Total)
	m.mu.Unlock()
	if width >= leastWithBar {
		room := min(width/8, barColumns)
		full := min(int(part*float64(room)), room)
		return "[" + strings.Repeat("#", full) + strings.Repeat("-", room-full) + "] " + m.text(width-room-3, now)
	}
	return withoutMiddle(text, width)
}

// sum is a line about the whole transfer.
func (m *moving) sum() string {
	words := []struct{ op, word string }{{"fetch", "fetched"}, {"push", "sent"}, {"mount", "mounted from other repositories there"}, {"exists", "there already"}}
	by := m.bytes()
	var parts []string
	for _, w := range words {
		if n := by[w.op]; n > 0 {
			parts = append(parts, size(n)+" "+w.word)
		}
		delete(by, w.op)
	}
	var rest int64
	for _, n := range by {
		rest += n
	}
	if rest > 0 || len(parts) == 0 {
		parts = append(parts, size(rest)+" done")
	}
	out := strings.Join(parts, ", ")
	if took := m.took(); took >= time.Second {
		out += " in " + roughly(took)
	}
	if total := m.total(); m.done() < total {
		out += fmt.Sprintf(", of %s", size(total))
	}
	return out
}

func (m *moving) done() int64 { m.mu.Lock(); defer m.mu.Unlock(); return m.last.Done }

// roughly prints a duration in one or two units.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
