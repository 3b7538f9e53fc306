package build

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const (
	// authListName at the context's root holds credentials. It is read, and
	// never copied into an image.
	authListName = "imageListWithAuth.yaml"
	// rulesName at the context's root steers discovery.
	rulesName = ".sealerimages"
	// maxSmallFile bounds the files of the context that steer a build.
	maxSmallFile = 8 << 20
)

// A buildContext is the directory that COPY reads from.
type buildContext struct {
	dir        string
	root       *os.Root
	ignore     *patternmatcher.PatternMatcher // nil: nothing is ignored
	ignoreName string
	secret     *fileStat // of the list with credentials, or nil
	lock       *fileStat // of the lock file, or nil
}

func openContext(dir string) (*buildContext, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open build context: %w", err)
	}
	c := &buildContext{dir: dir, root: root}
	if err := c.readIgnore(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if fi, err := root.Stat(authListName); err == nil {
		c.secret = statOf(fi)
	}
	return c, nil
}

func (c *buildContext) Close() error { return c.root.Close() }

func (c *buildContext) readIgnore() error {
	for _, name := range []string{".sealerignore", ".dockerignore"} {
		b, err := c.readSmall(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(b))
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if c.ignore, err = matcher(patterns); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		c.ignoreName = name
		return nil
	}
	return nil
}

// matcher makes a matcher of patterns, or says which of them is bad.
func matcher(patterns []string) (*patternmatcher.PatternMatcher, error) {
	for _, p := range patterns {
		if _, err := patternmatcher.New([]string{p}); err != nil {
			return nil, badPattern(p, err)
		}
	}
	return patternmatcher.New(patterns)
}

func badPattern(pattern string, err error) error {
	if errors.Is(err, path.ErrBadPattern) || errors.Is(err, filepath.ErrBadPattern) {
		return fmt.Errorf("pattern %s: a [ is not closed, or its range is not in order: write \\[ for the character", pattern)
	}
	return fmt.Errorf("pattern %s: %w", pattern, err)
}

// readSmall reads a file of the context that steers the build.
func (c *buildContext) readSmall(name string) ([]byte, error) {
	f, err := c.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, plain(err))
	}
	defer f.Close()
	b, err := readLimited(f, maxSmallFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, plain(err))
	}
	return b, nil
}

// ignored reports whether name, a path in the context, is ignored, and whether
// nothing below it can be re-included.
func (c *buildContext) ignored(name string) (skip, prune bool, err error) {
	if c.ignore == nil || name == "." {
		return false, false, nil
	}
	skip, err = c.ignore.MatchesOrParentMatches(name)
	return skip, skip && !c.ignore.Exclusions(), err
}

// included reports whether something below dir, a directory that is ignored, is
// not.
func (c *buildContext) included(dir string) (bool, error) {
	entries, err := readDir(c.root, dir)
	if err != nil {
		return false, fmt.Errorf("%s: %w", dir, plain(err))
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		skip, prune, err := c.ignored(name)
		if err == nil && skip && !prune && e.IsDir() {
			skip, err = c.included(name)
			skip = !skip
		}
		if err != nil || !skip {
			return err == nil, err
		}
	}
	return false, nil
}

// clean makes a path in the context of a source as the Kubefile writes it: a
// leading slash means the context. A path that leads out is an error.
func clean(src string) (string, error) {
	p := path.Clean(strings.TrimLeft(src, "/"))
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("%s leads out of the build context", src)
	}
	return p, nil
}

// glob returns the paths in the context that a pattern matches, sorted. A
// pattern that names a file as it stands matches that alone. literal says that
// src was no pattern.
func (c *buildContext) glob(src string) (names []string, literal bool, err error) {
	p, err := clean(src)
	if err != nil {
		return nil, true, err
	}
	if _, err := c.root.Lstat(p); err == nil || !strings.ContainsAny(p, `*?[\`) {
		return []string{p}, true, plain(err)
	}
	names = []string{"."}
	for elem := range strings.SplitSeq(p, "/") {
		var next []string
		for _, dir := range names {
			found, err := c.globIn(dir, elem)
			if err != nil {
				return nil, false, err
			}
			next = append(next, found...)
		}
		names = next
	}
	if len(names) == 0 {
		return nil, false, fmt.Errorf("no file matches: %w", fs.ErrNotExist)
	}
	return names, false, nil
}

// globIn matches one element of a pattern against the entries of dir.
func (c *buildContext) globIn(dir, elem string) ([]string, error) {
	if !strings.ContainsAny(elem, `*?[\`) {
		p := path.Join(dir, elem)
		if _, err := c.root.Lstat(p); err != nil {
			return nil, c.closed(dir, err)
		}
		return []string{p}, nil
	}
	if _, err := path.Match(elem, ""); err != nil {
		return nil, badPattern(elem, err)
	}
	entries, err := readDir(c.root, dir)
	if err != nil {
		return nil, c.closed(dir, err)
	}
	var out []string
	for _, e := range entries {
		if ok, _ := path.Match(elem, e.Name()); ok {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// closed keeps permission errors: skipping an unreadable directory could
// silently drop matches. Other errors mean that nothing matches. Ignored
// directories are not entered.
func (c *buildContext) closed(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	_, prune, ierr := c.ignored(dir)
	if prune || ierr != nil {
		return ierr
	}
	return fmt.Errorf("%s: %w", dir, plain(err))
}
