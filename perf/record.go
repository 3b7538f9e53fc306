package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/perf/figure"
)

// A record is all that the page is written from: run.json beside the plots.
type record struct {
	Quick    bool      `json:"quick,omitempty"`
	Machine  []string  `json:"machine"`
	Versions []string  `json:"versions"`
	Parts    []outcome `json:"parts"`
}

// An outcome is what one part left.
type outcome struct {
	Name    string          `json:"name"`
	Title   string          `json:"title"`
	Command string          `json:"command"`
	About   string          `json:"about,omitempty"`
	Date    string          `json:"date"`
	Load    float64         `json:"load"` // of one minute, when the part began
	Seconds float64         `json:"seconds"`
	Problem string          `json:"problem,omitempty"` // why figures are missing
	Figures []figure.Figure `json:"figures"`
}

func (o outcome) remark() string {
	if o.Problem == "" {
		return ""
	}
	return ": NOT WHOLE: " + o.Problem
}

// put replaces the outcome of a part, and keeps the order of the parts.
func (r *record) put(o outcome) {
	r.Parts = slices.DeleteFunc(r.Parts, func(p outcome) bool { return p.Name == o.Name })
	r.Parts = append(r.Parts, o)
	at := func(name string) int { return slices.IndexFunc(parts, func(p part) bool { return p.name == name }) }
	slices.SortStableFunc(r.Parts, func(a, b outcome) int { return at(a.Name) - at(b.Name) })
}

// beside returns the directory of the page's plots and of run.json.
func beside(page string) string { return strings.TrimSuffix(page, filepath.Ext(page)) }

func (r *record) write(page string) error {
	if err := os.MkdirAll(beside(page), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(beside(page), "run.json"), append(b, '\n'), 0o644)
}

func readRecord(page string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(beside(page), "run.json"))
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(beside(page), "run.json"), err)
	}
	return r, nil
}

// machine says on what the figures were measured.
func machine(ctx context.Context, tmp string) []string {
	model := fileField("/proc/cpuinfo", "model name")
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(fileField("/proc/meminfo", "MemTotal"), " kB"), 64)
	return []string{
		fmt.Sprintf("%d processors: %s", runtime.NumCPU(), model),
		fmt.Sprintf("%.1f GiB of memory", kb/(1<<20)),
		fmt.Sprintf("%s %s", firstOf(ctx, "uname", "-sr"), runtime.GOARCH),
		fmt.Sprintf("temporary files on %s", firstOf(ctx, "stat", "-f", "-c", "%T", tmp)),
	}
}

// versions names the programs that were measured or measured with.
func versions(ctx context.Context) []string {
	out := []string{"sealer at commit " + firstOf(ctx, "git", "rev-parse", "--short=12", "HEAD"), firstOf(ctx, "go", "version")}
	for _, program := range [][]string{{"skopeo", "--version"}, {"git", "--version"}, {"tar", "--version"}, {"zstd", "-qV"}, {"crane", "version"}, {"helm", "version", "--short"}} {
		text := firstOf(ctx, program[0], program[1:]...)
		if text == "" {
			text = program[0] + ": not on this machine"
		} else if !strings.Contains(text, program[0]) {
			text = program[0] + " " + text
		}
		out = append(out, text)
	}
	return out
}

func firstOf(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// fileField returns the value of the first line "NAME : VALUE" of a file.
func fileField(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "not known"
	}
	for line := range strings.Lines(string(b)) {
		if k, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "not known"
}

func load() float64 {
	b, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseFloat(one, 64)
	return n
}
