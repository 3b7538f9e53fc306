package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/clusterimage/sealer/cluster"
)

// clusterProgress shows the steps of a run on stderr: a line a step, with the
// time that it took, or one JSON object an event.
type clusterProgress struct {
	w     io.Writer
	json  bool
	quiet bool
	logs  bool // lines of the programs, too

	mu    sync.Mutex
	began time.Time
}

func (a *app) clusterProgress() *clusterProgress {
	return &clusterProgress{w: a.Err, json: a.progress == "json", quiet: a.progress == "none", logs: a.debug, began: time.Now()}
}

func (p *clusterProgress) event(e cluster.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		if b, err := json.Marshal(e); err == nil {
			printf(p.w, "%s\n", b)
		}
		return
	}
	if p.quiet {
		return
	}
	at := fmt.Sprintf("%6.1fs %-15s", time.Since(p.began).Seconds(), e.Host)
	switch e.Type {
	case "done":
		printf(p.w, "%s %-13s %s (%.1fs)\n", at, e.Kind, e.Why, e.Elapsed.Seconds())
	case "failed":
		printf(p.w, "%s %-13s FAILED: %s\n", at, e.Kind, e.Text)
	case "blocked":
		printf(p.w, "%s %-13s not tried: %s\n", at, e.Kind, e.Why)
	case "log":
		if p.logs || e.Kind == "guest" || e.Kind == "" {
			printText(p.w, fmt.Sprintf("%s %-13s | %s", at, e.Kind, oneLine(e.Text)))
		}
	}
}
