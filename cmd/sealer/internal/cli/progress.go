package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/clusterimage/sealer/registry/remote"
)

// progress shows the progress of a command on stderr: a bar on a terminal, a line
// now and then elsewhere, or one JSON object for each event. It is safe for
// concurrent use.
type progress struct {
	w    io.Writer
	bar  io.Writer // the terminal itself
	mode string    // bar, plain, json or none
	// every is the minimum time between two lines or redraws.
	every time.Duration

	mu      sync.Mutex
	shown   time.Time
	last    remote.Event
	pending bool // the last event has not been shown
	drawn   bool // the bar is on the current line
	held    []string
}

// heldLines is the number of steps that are kept, when none are shown, for the
// case of an error.
const heldLines = 20

// newProgress makes the progress of one run. quiet shows nothing, unless the user
// chose a mode. Close it before results or errors are printed.
func (a *app) newProgress(quiet bool) *progress {
	p := &progress{w: a.Err, bar: a.raw.Err, mode: a.progress, every: 2 * time.Second}
	if p.mode == "auto" && quiet {
		p.mode = "none"
	}
	if p.mode == "auto" {
		p.mode = "plain"
		if f, ok := a.raw.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			p.mode, p.every = "bar", 100*time.Millisecond
		}
	}
	return p
}

// transfer shows an event of a transfer.
func (p *progress) transfer(e remote.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.mode {
	case "none":
		return
	case "json":
		p.json(map[string]any{
			"op": e.Op, "reference": e.Reference, "digest": e.Digest, "size": e.Size,
			"finished": e.Finished, "done": e.Done, "total": e.Total,
		})
		return
	}
	p.last, p.pending = e, true
	if now := time.Now(); now.Sub(p.shown) >= p.every {
		p.shown = now
		p.draw()
	}
}

// step shows that a new part of the work begins; text is one line.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.mode {
	case "none":
		p.held = append(p.held[max(0, len(p.held)-heldLines+1):], text)
	case "json":
		p.json(map[string]any{"op": "step", "text": text})
	default:
		p.finishBar()
		printText(p.w, oneLine(text))
	}
}

// warning shows a warning, in every mode.
func (p *progress) warning(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == "json" {
		p.json(map[string]any{"op": "warning", "text": text})
		return
	}
	p.finishBar()
	printText(p.w, "Warning: "+oneLine(text))
}

// oneLine returns text as a line, with its tabs. Of a line that a command of RUN
// wrote over and over, the last state is left.
func oneLine(text string) string {
	text = strings.TrimRight(text, "\r\n")
	text = text[strings.LastIndexByte(text, '\r')+1:]
	return strings.ReplaceAll(text, "\n", `\n`) + "\n"
}

// failed shows the last steps that were kept back: they are part of the output of
// a command that failed.
func (p *progress) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.held {
		printText(p.w, oneLine(text))
	}
	p.held = nil
}

// Close ends the bar, so that the next output begins on a new line.
func (p *progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishBar()
}

func (p *progress) finishBar() {
	if p.mode == "bar" && p.drawn {
		if p.pending {
			p.draw()
		}
		printLine(p.w)
	}
	p.drawn, p.pending = false, false
}

func (p *progress) json(v map[string]any) {
	// An event always encodes. A closed stderr is ignored: there is nowhere to
	// report it.
	b, _ := json.Marshal(v)
	printf(p.w, "%s\n", b)
}

func (p *progress) draw() {
	e := p.last
	p.pending = false
	if e.Total == 0 {
		return
	}
	text := fmt.Sprintf("%s of %s", size(e.Done), size(e.Total))
	if p.mode == "plain" {
		printLine(p.w, text)
		return
	}
	const width = 30
	full := min(int(e.Done*width/e.Total), width)
	printf(p.bar, "\r[%s%s] %s\x1b[K", strings.Repeat("#", full), strings.Repeat("-", width-full), text)
	p.drawn = true
}
