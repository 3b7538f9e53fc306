package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/registry/remote"
)

// progress shows the progress of a command on stderr: a bar on a terminal, a line
// now and then elsewhere, or JSON objects. A transfer ends with its sum. It is safe
// for concurrent use.
type progress struct {
	w    io.Writer
	term *os.File // the terminal itself, in mode bar
	mode string   // bar, plain, json or none
	// every is the minimum time between two lines, or two events of a blob that is
	// not done.
	every time.Duration

	mu    sync.Mutex
	shown time.Time
	now   *moving // the transfer that is going on
	bars  *mpb.Progress
	bar   *mpb.Bar
	held  []string
}

// heldLines is the number of steps that are kept, when none are shown, for the
// case of an error.
const heldLines = 20

// The times between two signs of life.
const (
	everyLine  = 2 * time.Second
	everyEvent = 500 * time.Millisecond
	everyDraw  = 150 * time.Millisecond
)

// newProgress makes the progress of one run. quiet shows nothing, unless the user
// chose a mode. Close it before results or errors are printed.
func (a *app) newProgress(quiet bool) *progress {
	p := &progress{w: a.Err, mode: a.progress, every: everyLine}
	if p.mode == "json" {
		p.every = everyEvent
	}
	if p.mode == "auto" && quiet {
		p.mode = "none"
	}
	if p.mode == "auto" {
		p.mode = "plain"
		if f, ok := a.raw.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			p.mode, p.term = "bar", f
		}
	}
	return p
}

// transfer shows an event of a transfer.
func (p *progress) transfer(e remote.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == "none" {
		return
	}
	now := time.Now()
	if p.now == nil || p.now.isOver(e) {
		p.end()
		p.now = newMoving(now)
	}
	p.now.add(e, now)
	due := now.Sub(p.shown) >= p.every
	switch p.mode {
	case "json":
		if e.Finished || due {
			p.shown = now
			p.json(map[string]any{
				"op": e.Op, "reference": e.Reference, "digest": e.Digest, "size": e.Size,
				"finished": e.Finished, "done": e.Done, "total": e.Total,
			})
		}
	case "plain":
		if text := p.now.text(plainColumns, now); due && text != "" {
			p.shown = now
			printLine(p.w, text)
		}
	case "bar":
		p.draw()
	}
}

// draw begins the bar. It draws itself from then on: at the width that the terminal
// has at that moment, also while nothing arrives.
func (p *progress) draw() {
	if p.bar != nil {
		return
	}
	m := p.now
	p.bars = mpb.New(mpb.WithOutput(p.term), mpb.WithRefreshRate(everyDraw), mpb.WithAutoRefresh())
	p.bar = p.bars.MustAdd(0, mpb.BarFillerFunc(func(w io.Writer, at decor.Statistics) error {
		columns := at.AvailableWidth
		if columns < 1 {
			columns = 80 // a terminal that does not say its width
		}
		_, err := printf(w, "%s", m.line(columns-1, time.Now()))
		return err
	}))
}

// end finishes the transfer that is going on, with its sum.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true) // the sum takes the line
		p.bars.Wait()
		p.bars, p.bar = nil, nil
	}
	if m := p.now; m != nil && m.total() > 0 {
		if p.mode == "json" {
			p.json(map[string]any{"op": "sum", "bytes": m.bytes(), "seconds": m.took().Seconds()})
		} else {
			printLine(p.w, m.sum())
		}
	}
	p.now = nil
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
		p.end()
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
	p.end()
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

// Close ends the transfer with its sum, so that the next output begins on a new
// line.
func (p *progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

func (p *progress) json(v map[string]any) {
	v["time"] = time.Now().UTC().Format(time.RFC3339Nano)
	// An event always encodes. A closed stderr is ignored: there is nowhere to
	// report it.
	b, _ := json.Marshal(v)
	printf(p.w, "%s\n", b)
}
