package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

type linksKind struct{}

// target returns the path that a link points at. It is the path on the machine,
// without the Root that this process sees the machine below.
func (w *Work) target(a plan.LinksArgs, in string) (string, error) {
	rel, err := filepath.Rel(w.Root, w.rootfs(a.Generation, in))
	return filepath.Join("/", rel), err
}

func (linksKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.LinksArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	for name, in := range a.Links {
		want, err := w.linked(a, in)
		if err != nil {
			return false, err
		}
		if got, err := os.Readlink(w.Path(name)); err != nil || got != want {
			return false, nil //nolint:nilerr // no link there
		}
	}
	return true, nil
}

// linked is the link's text: in a machine that is a directory, a path that this
// process can follow.
func (w *Work) linked(a plan.LinksArgs, in string) (string, error) {
	if w.Root != "/" {
		return w.rootfs(a.Generation, in), nil
	}
	return w.target(a, in)
}

func (linksKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.LinksArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	var errs []error
	for name, in := range a.Links {
		target, err := w.linked(a, in)
		if err == nil {
			err = w.Symlink(name, target, false)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type treesKind struct{}

func (treesKind) Check(_ context.Context, w *Work, _ json.RawMessage) (bool, error) {
	return w.Journal.Records().Done(w.Step.ID), nil
}

func (treesKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.TreesArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	var errs []error
	for _, d := range a.Dirs {
		errs = append(errs, w.Tree(d))
	}
	for _, d := range a.Empty {
		if _, err := os.Stat(w.Path(d)); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, w.change(journal.Change{What: journal.Dir, Name: d}))
		}
	}
	return errors.Join(errs...)
}
