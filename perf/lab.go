package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterimage/sealer/perf/figure"
)

// A lab has the means that all parts use.
type lab struct {
	tmp    string
	sealer string // the program
	quick  bool
	out    io.Writer
}

// A meter is the lab of one part.
type meter struct {
	*lab
	part    string
	dir     string   // empty, removed afterwards
	figures string   // the file of its figures
	env     []string // more of the environment of programs
}

// usage is what a program has used.
type usage struct {
	wall, cpu float64 // s
	mb        float64 // most resident memory, 1e6 bytes
}

// unable is the error of a part whose tools are not on this machine.
type unable struct{ why string }

func (u unable) Error() string { return u.why }

// sealerRun runs sealer with its store in root.
func (m *meter) sealerRun(ctx context.Context, root string, args ...string) (usage, error) {
	return m.run(ctx, m.sealer, append([]string{"--root", root, "--progress", "none"}, args...)...)
}

// run runs a program and returns its use. Its output is in the error only.
func (m *meter) run(ctx context.Context, name string, args ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), append([]string{"NO_PROXY=127.0.0.1", "HOME=" + m.dir, "XDG_CONFIG_HOME=" + m.dir}, m.env...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	most := watch(cmd.Process.Pid)
	err := cmd.Wait()
	u := usage{wall: time.Since(begin).Seconds(), mb: most()}
	u.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if err != nil {
		return u, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out.String())
	}
	return u, nil
}

// watch follows the most resident memory of a process until the function that
// it returns is called. The process's own rusage would not do: a process begins
// with its parent's.
func watch(pid int) func() float64 {
	stop, done := make(chan struct{}), make(chan struct{})
	var kb float64
	go func() {
		defer close(done)
		for {
			kb = max(kb, statusField(pid, "VmHWM"))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() float64 { close(stop); <-done; return kb * 1024 / 1e6 }
}

// statusField reads a number of /proc/PID/status; 0 where there is none.
func statusField(pid int, name string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(value, 64)
	return n
}

// script runs a benchmark of this repository, whose figures come by the
// variable FIGURES or, where it writes none, from the lines of "go test -bench".
// env is NAME=VALUE.
func (m *meter) script(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), figure.Variable+"="+m.figures), env...)
	endTogether(cmd)
	cmd.WaitDelay = 20 * time.Second
	var tail tail
	lines := &benchLines{}
	before, _ := readFigures(m.figures)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(m.out, &tail, lines), io.MultiWriter(m.out, &tail)
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, tail.last())
	}
	if after, _ := readFigures(m.figures); len(after) > len(before) {
		return err // it has figures of its own, which say more
	}
	for _, f := range lines.figures {
		err = errors.Join(err, m.add(f))
	}
	return err
}

// A tail keeps the last bytes of an output.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 4096 {
		t.b = slices.Clone(t.b[len(t.b)-2048:])
	}
	return len(p), nil
}

func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return lines[len(lines)-1]
}

// benchLines turns the lines of "go test -bench" into figures.
type benchLines struct {
	rest    string
	figures []figure.Figure
}

func (l *benchLines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, found := strings.Cut(l.rest, "\n")
		if !found {
			return len(p), nil
		}
		l.rest = rest
		l.figures = append(l.figures, benchFigures(line)...)
	}
}

// result is a line of the format of golang.org/design/14313-benchmark-format.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+(\d+)\s+(\S.*)$`)

// benchFigures reads one line of "go test -bench"; ns/op and the like of memory
// allocation are left out where the benchmark reports figures of its own.
func benchFigures(line string) []figure.Figure {
	found := result.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	runs, _ := strconv.Atoi(found[2])
	fields := strings.Fields(found[3])
	var out, plain []figure.Figure
	for i := 0; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil
		}
		f := figure.Figure{Name: strings.NewReplacer("/", ", ", "_", " ").Replace(found[1]), Value: value, Unit: fields[i+1], Runs: runs}
		switch f.Unit {
		case "B/op", "allocs/op":
		case "ns/op":
			f.Value, f.Unit = value/1e6, "ms"
			plain = append(plain, f)
		default:
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return plain
	}
	return out
}

// appendFigure writes a line as figure.Add does, to a file of this process's choice.
func appendFigure(name string, f figure.Figure) error {
	if err := f.Check(); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// readFigures reads the lines of a part; a file that is not there has none.
func readFigures(name string) ([]figure.Figure, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []figure.Figure
	var bad []error
	for lines, n := bufio.NewScanner(file), 1; lines.Scan(); n++ {
		var f figure.Figure
		dec := json.NewDecoder(strings.NewReader(lines.Text()))
		dec.DisallowUnknownFields()
		err := dec.Decode(&f)
		if err == nil {
			err = f.Check()
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("figure in line %d: %w", n, err))
			continue
		}
		out = append(out, f)
	}
	return out, errors.Join(bad...)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// median returns the middle, the smallest and the largest value.
func median(values []float64) (middle, low, high float64) {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]
}
