package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// platforms are those that a release is made for. What works on each stands in
// docs/install.md.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "the source tree")
	flag.StringVar(&o.out, "out", "../dist", "the directory to write, which is made anew")
	flag.StringVar(&o.key, "key", os.Getenv("RELEASE_KEY"), "the PEM file of the ECDSA key that signs the checksums; the default is $RELEASE_KEY, without which they are not signed")
	list := flag.String("platforms", platforms, "the platforms to build for")
	flag.Parse()
	for _, p := range strings.Split(*list, ",") {
		o.platforms = append(o.platforms, platform(p))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	root, out, key string
	platforms      []platform
}

// A platform is "system/architecture", by Go's names.
type platform string

func (p platform) system() string { s, _, _ := strings.Cut(string(p), "/"); return s }
func (p platform) arch() string   { _, a, _ := strings.Cut(string(p), "/"); return a }

// A release is the work that one run shares.
type release struct {
	options
	version  string // of the program, such as 0.1.0
	revision string // commit
	time     time.Time
	scratch  string // for files that are no part of the result
	common   []file // the files beside the program in each archive and package
}

// run makes all files below o.out. The directory appears when it is whole.
func (o options) run(ctx context.Context) (err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	r := &release{options: o}
	if r.scratch, err = os.MkdirTemp("", "sealer-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.scratch)) }()
	final := r.out
	if err := replaceable(final); err != nil {
		return err
	}
	r.out = final + ".new"
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	if err := r.source(ctx); err != nil {
		return err
	}
	if err := r.files(ctx); err != nil {
		return err
	}
	if err := r.sums(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(final), os.Rename(r.out, final)); err != nil {
		return err
	}
	fmt.Printf("release: sealer %s of commit %.12s in %s\n", r.version, r.revision, final)
	return nil
}

// replaceable returns an error unless dir may be made anew: it is not there, is
// empty, or holds an earlier release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "SHA256SUMS")); err != nil {
		return fmt.Errorf("%s holds something else than a release: remove it, or name another directory with -out", dir)
	}
	return nil
}

// source learns the commit and its time.
func (r *release) source(ctx context.Context) error {
	changes, err := r.command(ctx, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		fmt.Fprintln(os.Stderr, "release: the source tree has changes that are in no commit: this release cannot be made again")
	}
	if r.revision, err = r.command(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	text, err := r.command(ctx, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	return nil
}

// files writes everything that the checksums cover.
func (r *release) files(ctx context.Context) error {
	var errs []error
	for i, p := range r.platforms {
		program, err := r.compile(ctx, p)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := r.prepare(ctx); err != nil {
				return err
			}
		}
		licences, err := r.licences(ctx, program)
		if err != nil {
			return err
		}
		errs = append(errs, r.archive(p, program, licences), r.inventory(p, program, licences))
		if p.system() == "linux" {
			errs = append(errs, r.packages(p, program))
		}
	}
	script, err := os.ReadFile(filepath.Join(r.root, "release/files/install.sh"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.out, "install.sh"), script, 0o755)
	}
	return errors.Join(append(errs, err)...)
}

// command returns the trimmed output of a program that is run in the source tree.
func (r *release) command(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = r.root, os.Stderr
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	b, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(b)), nil
}
