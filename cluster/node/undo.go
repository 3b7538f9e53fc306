package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/store"
)

// Undo puts back all that the journal says was changed, the latest first. A
// change that cannot be put back does not keep the others from it; it stays in
// the journal, and Undo tries again when it is called again. say gets a line for
// each thing that was not as sealer had left it.
func (m *Machine) Undo(ctx context.Context, say func(string)) error {
	var errs []error
	var again []journal.Record // units that ran before sealer came
	for _, r := range m.Journal.Records().Inventory() {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if err := m.undo(ctx, *r.Change, say); err != nil {
			errs = append(errs, fmt.Errorf("undo %s %s: %w", r.Change.What, r.Change.Name, err))
			continue
		}
		if r.Change.What == journal.Unit && r.Change.Was != nil {
			again = append(again, r)
			continue
		}
		errs = append(errs, m.undone(r))
	}
	for _, r := range again { // their files are as they were now
		err := m.Units.Install(ctx, r.Change.Name)
		if err == nil && strings.Contains(r.Change.Was.Value, "active") {
			err = m.Units.Start(ctx, r.Change.Name, true)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("undo unit %s: %w", r.Change.Name, err))
			continue
		}
		errs = append(errs, m.undone(r))
	}
	return errors.Join(errs...)
}

func (m *Machine) undone(r journal.Record) error {
	return m.Journal.Append(journal.Record{Event: journal.Undone, Step: r.Step, Kind: r.Kind, Change: &journal.Change{What: r.Change.What, Name: r.Change.Name}})
}

func (m *Machine) undo(ctx context.Context, c journal.Change, say func(string)) error {
	switch c.What {
	case journal.File, journal.Link:
		return m.undoFile(ctx, c, say)
	case journal.Dir:
		return m.undoDir(c, say)
	case journal.Tree:
		if err := m.unmountBelow(c.Name); err != nil {
			return err
		}
		if c.Was != nil {
			return m.empty(c.Name)
		}
		return os.RemoveAll(m.Path(c.Name))
	case journal.Block:
		return m.undoBlock(c)
	case journal.Unit:
		return m.Units.Stop(ctx, c.Name)
	case journal.Sysctl:
		return m.undoSysctl(c)
	case journal.Module:
		if err := exec.CommandContext(ctx, "modprobe", "-r", c.Name).Run(); err != nil {
			say(fmt.Sprintf("module %s stays loaded: something else uses it", c.Name))
		}
		return nil
	case journal.Host:
		return m.setHostname(c.Was.Value)
	case journal.Image:
		return m.withStore(func(s *store.Store) error {
			_, err := s.Remove(ctx, c.Name)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
	case journal.Kube:
		if err := m.kubeadmReset(ctx, c.Now, say); err != nil {
			return err
		}
		return m.restoreNetwork(ctx, c.Was.Digest, strings.Fields(c.Was.Value), say)
	}
	return fmt.Errorf("this sealer does not know such a change")
}

// undoSysctl writes a parameter only where it differs: some may be read but not
// written in a container.
func (m *Machine) undoSysctl(c journal.Change) error {
	path := m.Path(sysctlPath(c.Name))
	b, err := os.ReadFile(path)
	if err != nil {
		return ignoreAbsent(err)
	}
	if strings.Join(strings.Fields(string(b)), " ") == c.Was.Value {
		return nil
	}
	return os.WriteFile(path, []byte(c.Was.Value+"\n"), 0o644)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// undoFile removes a file or a link, or puts back the one that sealer replaced.
// When somebody changed it since, undoFile says so and goes on all the same:
// the file belongs to the cluster that is deleted.
func (m *Machine) undoFile(ctx context.Context, c journal.Change, say func(string)) error {
	path := m.Path(c.Name)
	if err := ignoreAbsent(os.Remove(fresh(path))); err != nil {
		return err
	}
	now, err := os.Readlink(path)
	if c.What == journal.File {
		now, err = digestFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case now != c.Now:
		if c.Was != nil && (now == c.Was.Digest || now == c.Was.Link) {
			return nil // the change never happened
		}
		say(fmt.Sprintf("%s was changed since sealer wrote it", c.Name))
	}
	if c.Was == nil {
		return ignoreAbsent(os.Remove(path))
	}
	if c.Was.Link != "" {
		return errors.Join(ignoreAbsent(os.Remove(path)), os.Symlink(c.Was.Link, path))
	}
	f, err := m.Journal.OpenSaved(c.Was.Digest)
	if err != nil {
		return err
	}
	err = m.replaceFile(c.Name, io.Reader(f), fs.FileMode(c.Was.Mode))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Chown(path, c.Was.UID, c.Was.GID)
}

func (m *Machine) undoDir(c journal.Change, say func(string)) error {
	err := os.Remove(m.Path(c.Name))
	entries, rerr := os.ReadDir(m.Path(c.Name))
	if err != nil && rerr == nil && len(entries) > 0 {
		say(fmt.Sprintf("%s stays: it holds %s, which sealer did not make", c.Name, entries[0].Name()))
		return nil
	}
	return ignoreAbsent(err)
}
