// Command perf measures sealer and writes docs/performance.md: "make bench-all".
//
// A part is one benchmark of this repository, or one growth that is measured
// here; "perf -list" prints them. Each part leaves figures (package
// perf/figure); all of them, with the machine and the time of each part, are
// kept in run.json beside the plots, and the page is written from that file
// alone. A part that cannot run here, fails or takes too long says so in the
// page; the exit code is 1 then.
//
//	perf                       all parts, in less than 30 minutes on two idle processors
//	perf -only serve,version   these parts; the figures of the others stay
//	perf -quick                small sizes: whether it works, no figures to keep
//	perf -write                the page again, from run.json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/clusterimage/sealer/perf/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

// published is the page that is in the repository.
const published = "docs/performance.md"

// options are the flags.
type options struct {
	only         string
	quick, write bool
	list         bool
	page         string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.only, "only", "", "run these `parts`, separated by commas")
	flags.BoolVar(&o.quick, "quick", false, "small sizes, and a page among temporary files")
	flags.BoolVar(&o.write, "write", false, "write the page from run.json, and measure nothing")
	flags.BoolVar(&o.list, "list", false, "print the parts")
	flags.StringVar(&o.page, "page", published, "`file` of the page; run.json and the plots go into a directory of its name")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.list {
		for _, p := range parts {
			fmt.Fprintf(stdout, "%-10s %3.0f min at most  %s\n", p.name, p.limit.Minutes(), p.title)
		}
		return nil
	}
	if o.write {
		r, err := readRecord(o.page)
		if err != nil {
			return err
		}
		return writePage(o.page, r)
	}
	return measureAll(ctx, o, stdout)
}

// measureAll runs the parts and writes the page. Its error names the parts that
// left no figures.
func measureAll(ctx context.Context, o options, stdout io.Writer) (err error) {
	wanted, err := choose(o.only)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "sealer-perf-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if o.quick && o.page == published { // small sizes never replace others
		o.page = filepath.Join(os.TempDir(), "sealer-performance-quick.md")
	}
	l := &lab{tmp: tmp, quick: o.quick, out: stdout, sealer: filepath.Join(tmp, "sealer")}
	if err := l.buildSealer(ctx); err != nil {
		return err
	}
	r := &record{}
	if o.only != "" {
		if old, err := readRecord(o.page); err == nil {
			r = old
		}
	}
	r.Machine, r.Versions, r.Quick = machine(ctx, tmp), versions(ctx), o.quick
	var failed []error
	for _, p := range wanted {
		done := l.measure(ctx, p)
		r.put(done)
		fmt.Fprintf(stdout, "perf: %s: %d figures in %.0f s%s\n", p.name, len(done.Figures), done.Seconds, done.remark())
		if done.Problem != "" {
			failed = append(failed, fmt.Errorf("%s: %s", p.name, done.Problem))
		}
		if err := errors.Join(r.write(o.page), writePage(o.page, r)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintf(stdout, "perf: wrote %s\n", o.page)
	return errors.Join(failed...)
}

// buildSealer builds the program that is measured. It is copied, as it is when
// it is installed: the linker's own file lies in the page cache in large folios,
// of which more is mapped, and counted as resident, than of a copy.
func (l *lab) buildSealer(ctx context.Context) error {
	linked := l.sealer + ".linked"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", linked, "./cmd/sealer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build sealer: %w\n%s", err, out)
	}
	b, err := os.ReadFile(linked)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(l.sealer, b, 0o755), os.Remove(linked))
}

// choose returns the parts that a list names, in the order of the page; "" is all.
func choose(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	names := strings.Split(only, ",")
	for _, n := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == n }) {
			return nil, fmt.Errorf("-only: no part is called %q; perf -list prints them", n)
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !slices.Contains(names, p.name) }), nil
}

// measure runs one part. A panic or a hang of a part is not the end of the others.
func (l *lab) measure(ctx context.Context, p part) outcome {
	done := outcome{Name: p.name, Title: p.title, Command: p.command, About: p.about, Date: time.Now().UTC().Format("2006-01-02 15:04"), Load: load()}
	fmt.Fprintf(l.out, "perf: %s: %s (load %.1f)\n", p.name, p.title, done.Load)
	limited, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("it took longer than %s", p.limit))
	defer cancel()
	dir := filepath.Join(l.tmp, p.name)
	begin := time.Now()
	err := os.MkdirAll(dir, 0o700)
	m := &meter{lab: l, dir: dir, part: p.name, figures: filepath.Join(l.tmp, p.name+".jsonl")}
	if err == nil {
		err = p.run(limited, m)
	}
	done.Seconds = time.Since(begin).Seconds()
	var bad error
	done.Figures, bad = readFigures(m.figures)
	if cause := context.Cause(limited); cause != nil {
		err = cause
	}
	err = errors.Join(err, bad, os.RemoveAll(dir))
	switch {
	case err != nil:
		done.Problem = firstLine(err)
		fmt.Fprintf(l.out, "perf: %s: %v\n", p.name, err)
	case len(done.Figures) == 0:
		done.Problem = "it wrote no figures"
	}
	return done
}

// add notes a figure of this part; its name gets the part's before it.
func (m *meter) add(f figure.Figure) error {
	if !strings.Contains(f.Name, "/") {
		f.Name = m.part + "/" + f.Name
	}
	return appendFigure(m.figures, f)
}
