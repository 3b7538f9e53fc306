package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

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
	name := a.File + "#" + a.Mark
	if err := w.change(journal.Change{What: journal.Block, Name: name, Now: digestOf([]byte(strings.Join(a.Lines, "\n")))}); err != nil {
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

// putBlock writes the block in place of the one that is there; no lines remove
// it. The file is replaced at once and keeps its mode. A file that cannot be
// renamed over, such as one that is mounted, is written in place.
func (m *Machine) putBlock(file, mark string, lines []string) error {
	b, err := os.ReadFile(m.Path(file))
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
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(m.Path(file)); err == nil {
		mode = info.Mode().Perm()
	}
	if err := m.replaceFile(file, strings.NewReader(text), mode); err != nil {
		return os.WriteFile(m.Path(file), []byte(text), mode)
	}
	return nil
}
