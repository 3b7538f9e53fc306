package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
)

// ErrForeign is wrapped by an error about a file that stands where a step wants
// to write and that sealer did not make.
var ErrForeign = errors.New("it is not sealer's")

// Path is where the machine's absolute path p lies for this process.
func (m *Machine) Path(p string) string { return filepath.Join(m.Root, p) }

// Dir is the cluster's directory on the machine, for this process.
func (m *Machine) Dir() string { return m.Journal.Dir() }

// change tells the journal of c before it is made.
func (w *Work) change(c journal.Change) error {
	return w.Journal.Append(journal.Record{Event: journal.Changed, Step: w.Step.ID, Kind: w.Step.Kind, Change: &c})
}

// ours looks the thing up in the journal: ok when sealer made or changed it,
// and now is its state after the change.
func (m *Machine) ours(what, name string) (now string, ok bool) {
	for _, r := range m.Journal.Records().Inventory() {
		if r.Change.What == what && r.Change.Name == name {
			return r.Change.Now, true
		}
	}
	return "", false
}

// WriteFile makes the file name, an absolute path of the machine, have the
// content and the permission bits. A file that is not sealer's is an error that
// wraps ErrForeign, unless replace is set: delete puts it back. Directories that
// lack are made.
func (w *Work) WriteFile(name string, content []byte, mode fs.FileMode, replace bool) error {
	if same, err := w.hasFile(name, content, mode); err != nil || same {
		return err
	}
	if err := w.noteFile(name, digestOf(content), replace); err != nil {
		return err
	}
	return w.replaceFile(name, strings.NewReader(string(content)), mode)
}

// CopyFile is WriteFile with the content of the file from, a path for this
// process.
func (w *Work) CopyFile(name, from string, mode fs.FileMode, replace bool) error {
	want, err := digestFile(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	if info, err := os.Lstat(w.Path(name)); err == nil && info.Mode().IsRegular() && info.Mode().Perm() == mode {
		if got, err := digestFile(w.Path(name)); err == nil && got == want {
			return nil
		}
	}
	if err := w.noteFile(name, want, replace); err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return errors.Join(w.replaceFile(name, f, mode), f.Close())
}

// noteFile records a change before it is made: the state of the file name, and
// the digest now that its content will have. A file that is not sealer's is
// refused, unless replace is set or its content is the same.
func (w *Work) noteFile(name, now string, replace bool) error {
	c := journal.Change{What: journal.File, Name: name, Now: now}
	info, err := os.Lstat(w.Path(name))
	_, known := w.ours(journal.File, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("write %s: %w", name, err)
	case !known && !replace:
		if got, err := digestFile(w.Path(name)); err == nil && got == now {
			break // the same program of another hand: kept as it is when the cluster goes
		}
		return fmt.Errorf("write %s: %w: a file is there already; move it away, or run with --force to have it replaced until the cluster is deleted", name, ErrForeign)
	}
	if err == nil && !known {
		if c.Was, err = w.save(name, info); err != nil {
			return err
		}
	}
	if err := w.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return w.change(c)
}

// save describes the file at name and stores its content, so that Undo can put
// it back.
func (w *Work) save(name string, info fs.FileInfo) (*journal.State, error) {
	s := &journal.State{Mode: uint32(info.Mode().Perm())}
	s.UID, s.GID = ownerOf(info)
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(w.Path(name))
		s.Link = target
		return s, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("write %s: it is neither a file nor a link", name)
	}
	f, err := os.Open(w.Path(name))
	if err != nil {
		return nil, fmt.Errorf("save %s: %w", name, err)
	}
	s.Digest, err = w.Journal.Save(f)
	return s, errors.Join(err, f.Close())
}

func (w *Work) hasFile(name string, content []byte, mode fs.FileMode) (bool, error) {
	info, err := os.Lstat(w.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm() != mode || info.Size() != int64(len(content)) {
		return false, nil
	}
	got, err := digestFile(w.Path(name))
	return got == digestOf(content), err
}

// fresh is the name under which a new file or link is made before it is renamed
// to path. It follows from path, so that the same step, or the undo of its
// change, finds the rest of a process that was killed.
func fresh(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".sealer-new")
}

// replaceFile writes a new file beside name and renames it.
func (m *Machine) replaceFile(name string, r io.Reader, mode fs.FileMode) (err error) {
	path := m.Path(name)
	if err := ignoreAbsent(os.Remove(fresh(path))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, err := os.OpenFile(fresh(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), ignoreAbsent(os.Remove(f.Name())))
		}
	}()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil { // a file that is not whole stays beside
		return err
	}
	return os.Rename(f.Name(), path)
}

// MkdirAll makes a directory of the machine and its parents. It records each
// directory that it makes.
func (w *Work) MkdirAll(name string) error {
	var lack []string
	for p := filepath.Clean(name); ; p = filepath.Dir(p) {
		if _, err := os.Stat(w.Path(p)); err == nil || p == "/" {
			break
		}
		lack = append(lack, p)
	}
	for _, p := range slices.Backward(lack) {
		if err := w.change(journal.Change{What: journal.Dir, Name: p}); err != nil {
			return err
		}
		if err := os.Mkdir(w.Path(p), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// Tree records that the directory name belongs to the cluster with all that
// will be in it, when it does not exist yet or is empty.
func (w *Work) Tree(name string) error {
	entries, err := os.ReadDir(w.Path(name))
	if _, known := w.ours(journal.Tree, name); known || err == nil && len(entries) > 0 {
		return nil
	}
	c := journal.Change{What: journal.Tree, Name: name}
	if err == nil {
		c.Was = &journal.State{Mode: 0o755}
	}
	if err := w.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return w.change(c)
}

// Symlink makes name a link to target.
func (w *Work) Symlink(name, target string, replace bool) error {
	if got, err := os.Readlink(w.Path(name)); err == nil && got == target {
		return nil
	}
	c := journal.Change{What: journal.Link, Name: name, Now: target}
	info, err := os.Lstat(w.Path(name))
	_, known := w.ours(journal.Link, name)
	if err == nil && !known {
		if !replace {
			return fmt.Errorf("link %s: %w", name, ErrForeign)
		}
		if c.Was, err = w.save(name, info); err != nil {
			return err
		}
	}
	if err := w.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	if err := w.change(c); err != nil {
		return err
	}
	tmp := fresh(w.Path(name))
	err = ignoreAbsent(os.Remove(tmp))
	if err == nil {
		err = os.Symlink(target, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, w.Path(name))
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
