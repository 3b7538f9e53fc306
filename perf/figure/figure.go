// Package figure is the line that a benchmark writes for each thing that it has
// measured, and that "make bench-all" gathers for docs/performance.md.
//
// A benchmark appends its lines to the file that the variable FIGURES names. It
// writes none where that is not set, so that its own output stays a table for
// people. Scripts write the same lines by the function of perf/figure.sh.
package figure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
)

// Variable names the environment variable that names the file of the lines.
const Variable = "FIGURES"

// Figure is one measured value, one line of JSON.
type Figure struct {
	// Name is BENCH/WORDS: "build/COPY of 20,000 files". The part before the
	// first slash groups figures on the page. Lines with one name and
	// different X are points of one growth.
	Name string `json:"figure"`
	// Value is the median of the runs.
	Value float64 `json:"value"`
	// Unit is of Value, Low, High and PeerValue: "s" of wall time, "CPU s", "MB"
	// of 1e6 bytes, "bytes", "requests", "ratio", "%", or a plural noun.
	Unit string `json:"unit"`
	// Low and High are the smallest and the largest run; both 0: not known.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Runs counts the runs; 0 means one.
	Runs int `json:"runs,omitempty"`
	// Goal is the most that Value may be, or where there is a Peer the most that
	// Value / PeerValue may be. Nil means that there is no goal.
	Goal *float64 `json:"goal,omitempty"`
	// Least makes the goal a least one.
	Least bool `json:"least,omitempty"`
	// Peer is what was measured beside it, in alternating runs where it is time:
	// "skopeo 1.9.3", "tar | zstd -3". PeerValue is its median.
	Peer      string  `json:"peer,omitempty"`
	PeerValue float64 `json:"peerValue,omitempty"`
	// X is the size that this point of a growth was measured at, in XUnit:
	// 200, "images". Zero means that the figure is no point of a growth.
	X     float64 `json:"x,omitempty"`
	XUnit string  `json:"xUnit,omitempty"`
	// Note is said beside the figure: a stand-in, a simulation, a caveat.
	Note string `json:"note,omitempty"`
}

// Check returns an error for a figure that a page could not show.
func (f Figure) Check() error {
	for _, v := range []float64{f.Value, f.Low, f.High, f.PeerValue, f.X} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("figure %q: a value is no number", f.Name)
		}
	}
	switch {
	case f.Name == "" || f.Unit == "":
		return fmt.Errorf("figure %q: name and unit are needed", f.Name)
	case f.X < 0 || (f.X > 0) != (f.XUnit != ""):
		return fmt.Errorf("figure %q: x, above 0, and xUnit belong together", f.Name)
	case f.Peer != "" && f.PeerValue == 0:
		return fmt.Errorf("figure %q: %s has no peerValue", f.Name, f.Peer)
	}
	return nil
}

// Add appends f to the file that FIGURES names; without one it does nothing. It
// may be called at once by several processes: a line is one write.
func Add(f Figure) error {
	name := os.Getenv(Variable)
	if name == "" {
		return nil
	}
	if err := f.Check(); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("figure %q: %w", f.Name, err)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("figure %q: %w", f.Name, err)
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
