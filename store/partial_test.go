package store_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// breakOff begins to write b, and returns the file with its first n bytes.
func breakOff(t *testing.T, root string, b []byte, n int) string {
	t.Helper()
	s := open(t, root)
	err := s.PutBlob(t.Context(), describe(b), func(w io.Writer) error {
		if _, err := w.(remote.Resumer).Resume(); err != nil {
			return err
		}
		_, err := w.Write(b[:n])
		return errors.Join(err, io.ErrUnexpectedEOF)
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "tmp", "partial-"+describe(b).Digest.Encoded())
}

// TestPartialIsKept for a week, through openings of the store and prune.
func TestPartialIsKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	b := bytes.Repeat([]byte("partial!"), 2<<20)
	path := breakOff(t, root, b, 3000)
	s := open(t, root)
	there := func(want bool) {
		t.Helper()
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("is there: %v, want %v", err, want)
		}
	}
	pruned, err := s.Prune(t.Context(), store.PruneOptions{})
	if err != nil || len(pruned.Items) > 0 {
		t.Errorf("prune: %+v, %v", pruned, err)
	}
	there(true)
	old := time.Now().Add(-8 * 24 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	pruned, err = s.Prune(t.Context(), store.PruneOptions{DryRun: true})
	if err != nil || len(pruned.Items) != 1 || pruned.Size != 3000 || pruned.Items[0].Kind != "temporary" {
		t.Errorf("prune: %+v, %v", pruned, err)
	}
	there(true)
	open(t, root)
	there(false)
	breakOff(t, root, b, 3000)
	if _, err := s.Prune(t.Context(), store.PruneOptions{Cache: true}); err != nil {
		t.Error(err)
	}
	there(false)
}

// TestPartialIsLocked: nobody takes the beginning of a blob from its writer.
func TestPartialIsLocked(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	b := bytes.Repeat([]byte("locked!!"), 2<<20)
	path := breakOff(t, root, b, 3000)
	s := open(t, root)
	err := s.PutBlob(t.Context(), describe(b), func(w io.Writer) error {
		n, err := w.(remote.Resumer).Resume()
		if err != nil || n != 3000 {
			t.Errorf("resumed at %d, %v", n, err)
		}
		old := time.Now().Add(-8 * 24 * time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Error(err)
		}
		open(t, root) // sweeps
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		_, err = w.Write(b[n:])
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if left := temporaries(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestPartialIsNoFile: a link in its place is not followed.
func TestPartialIsNoFile(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	b := bytes.Repeat([]byte("no file!"), 2<<20)
	path := breakOff(t, root, b, 3000)
	if err := errors.Join(os.Remove(path), os.WriteFile(other, []byte("mine"), 0o600), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	err := open(t, root).PutBlob(t.Context(), describe(b), func(w io.Writer) error {
		_, err := w.(remote.Resumer).Resume()
		return err
	})
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "mine" {
		t.Errorf("the link's target has %q, %v", b, err)
	}
}

// TestPartialRestart: Restart drops the bytes of this run, too.
func TestPartialRestart(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	b := bytes.Repeat([]byte("restart!"), 2<<20)
	breakOff(t, root, b, 3000)
	err := open(t, root).PutBlob(t.Context(), describe(b), func(w io.Writer) error {
		r := w.(remote.Resumer)
		_, err := r.Resume()
		_, writeErr := w.Write([]byte("wrong"))
		if err := errors.Join(err, writeErr, r.Restart()); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
