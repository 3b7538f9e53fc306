package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

type blockKind struct{}

func (blockKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.BlockArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	b, err := os.ReadFile(w.Path(a.File))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, got, _, found := cutBlock(string(b), a.Mark)
	return found && (slices.Equal(got, a.Lines) || len(a.Later) > 0 && slices.Equal(got, a.Later)), nil
}

func (blockKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.BlockArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	c := journal.Change{What: journal.Block, Name: a.File + "#" + a.Mark, Now: digestOf([]byte(strings.Join(a.Lines, "\n")))}
	switch b, err := os.ReadFile(w.Path(a.File)); {
	case errors.Is(err, fs.ErrNotExist):
		c.Was = &journal.State{Value: blockAbsent}
	case err == nil && len(b) > 0 && b[len(b)-1] != '\n':
		c.Was = &journal.State{Value: blockUnended}
	}
	if err := w.change(c); err != nil {
		return err
	}
	return w.putBlock(a.File, a.Mark, a.Lines)
}

func beginMark(mark string) string { return "# sealer " + mark + " begin" }
func endMark(mark string) string   { return "# sealer " + mark + " end" }

// cutBlock returns the text before the block, its lines, and the text after.
func cutBlock(text, mark string) (before string, lines []string, after string, found bool) {
	before, rest, ok := strings.Cut(text, beginMark(mark)+"\n")
	if !ok {
		return text, nil, "", false
	}
	inner, after, ok := strings.Cut(rest, endMark(mark)+"\n")
	if !ok {
		return text, nil, "", false
	}
	if inner = strings.TrimSuffix(inner, "\n"); inner != "" {
		lines = strings.Split(inner, "\n")
	}
	return before, lines, after, true
}

// How a file was before its block, where taking the block out is not enough.
const (
	blockAbsent  = "absent"
	blockUnended = "without a newline at its end"
)

// undoBlock takes the block out of its file.
func (m *Machine) undoBlock(c journal.Change) error {
	file, mark, _ := strings.Cut(c.Name, "#")
	path := m.followed(file)
	if err := ignoreAbsent(os.Remove(fresh(path))); err != nil {
		return err
	}
	if err := m.putBlock(file, mark, nil); err != nil || c.Was == nil {
		return err
	}
	b, err := os.ReadFile(path)
	switch {
	case err != nil:
		return ignoreAbsent(err)
	case c.Was.Value == blockAbsent && len(b) == 0:
		return os.Remove(path)
	case c.Was.Value == blockUnended && strings.HasSuffix(string(b), "\n"):
		return m.rewrite(path, b[:len(b)-1])
	}
	return nil
}

// followed is where the file lies for this process, behind its links.
func (m *Machine) followed(file string) string {
	if p, err := filepath.EvalSymlinks(m.Path(file)); err == nil && m.Root == "/" {
		return p
	}
	return m.Path(file)
}

// putBlock writes the block in place of the one that is there; no lines remove
// it.
func (m *Machine) putBlock(file, mark string, lines []string) error {
	path := m.followed(file)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("block %s: %w", mark, err)
	}
	before, _, after, found := cutBlock(string(b), mark)
	if !found {
		if len(lines) == 0 {
			return nil
		}
		if before != "" && !strings.HasSuffix(before, "\n") {
			before += "\n"
		}
	}
	text := before + after
	if len(lines) > 0 {
		text = before + beginMark(mark) + "\n" + strings.Join(lines, "\n") + "\n" + endMark(mark) + "\n" + after
	}
	if err := m.rewrite(path, []byte(text)); err != nil {
		return fmt.Errorf("block %s: %w", mark, err)
	}
	return nil
}

// rewrite gives a file, a path for this process, another content at once; owner
// and mode stay. A file that is mounted cannot be replaced and is written in
// place.
func (m *Machine) rewrite(path string, content []byte) error {
	mode := fs.FileMode(0o644)
	info, serr := os.Stat(path)
	if serr == nil {
		mode = info.Mode().Perm()
	}
	err := (&Machine{Root: "/"}).replaceFile(path, bytes.NewReader(content), mode)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return inPlace(path, content)
	case err != nil || serr != nil:
		return err
	}
	if uid, gid := ownerOf(info); uid != os.Getuid() || gid != os.Getgid() {
		return os.Chown(path, uid, gid)
	}
	return nil
}

// inPlace writes over a file. Its old content goes last, so that a full disk
// takes nothing away.
func inPlace(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Truncate(int64(len(content)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}
