package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

func TestProcessesShareBlobs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var out [4]bytes.Buffer
	var cmds []*exec.Cmd
	for i := range out {
		cmd := command(t.Context(), "blobs", root)
		cmd.Stdout, cmd.Stderr = &out[i], os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	writes := 0
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		writes += strings.Count(out[i].String(), "\n")
	}
	if writes != childBlobCount {
		t.Errorf("%d writes of %d blobs", writes, childBlobCount)
	}
	if left := temporaries(t, open(t, root)); left != nil {
		t.Errorf("left: %v", left)
	}
}

// A pin keeps the layers of an image that is gone with the blobs that they link
// to: the image may come back, is sound, and takes no more of the disk.
func TestPruneBesideAPin(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	commit(t, s, "a", "one")
	img, err := s.Image(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, end := background(t, "pin", s.Root(), "a")
	if r, err := s.Remove(t.Context(), "a"); err != nil || r.ID == "" || len(r.Pruned.Items) != 3 {
		t.Errorf("Remove beside a pin: %+v, %v", r, err)
	}
	for _, id := range img.LayerIDs() {
		if _, err := os.Stat(s.LayerDir(id)); err != nil {
			t.Error(err)
		}
	}
	mirrored := filepath.Join(s.LayerDir(img.Layers[1].ID), tree.Root, tree.BlobPath(img.Documents[0].Blobs[0].Digest))
	if b, err := os.ReadFile(mirrored); string(b) != "manifest one" {
		t.Errorf("%q, %v", b, err)
	}
	before := inode(t, mirrored)
	commit(t, s, "a", "one")
	if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		t.Errorf("Verify of the image that came back: %+v, %v", v, err)
	}
	if !os.SameFile(before, inode(t, s.BlobPath(img.Documents[0].Blobs[0].Digest))) {
		t.Error("the blob was written twice")
	}
	// Even where a blob was lost and came back.
	if err := os.Remove(s.BlobPath(img.Documents[0].Blobs[0].Digest)); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "a", "one")
	if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		t.Errorf("Verify of the blob that came back: %+v, %v", v, err)
	}
	if r, err := s.Remove(t.Context(), "a"); err != nil || r.ID == "" {
		t.Errorf("Remove: %+v, %v", r, err)
	}
	end()
	if p, err := s.Prune(t.Context(), store.PruneOptions{}); err != nil || len(p.Items) < 2 {
		t.Errorf("Prune: %+v, %v", p, err)
	}
	if _, err := s.Pin(t.Context(), img.LayerIDs()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Pin of what is gone: %v", err)
	}
}

func inode(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

func TestPruneBesideAnotherProcess(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	commit(t, s, "a", "one")
	garbage := blob(t, s, "garbage")
	pid, end := background(t, "hold", s.Root())
	_, err := s.Prune(t.Context(), store.PruneOptions{})
	if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
		t.Errorf("Prune beside a writer: %v", err)
	}
	if r, err := s.Remove(t.Context(), "a"); err != nil || r.ID == "" || len(r.Pruned.Items) > 0 || !errors.Is(r.Kept, store.ErrBusy) {
		t.Errorf("Remove beside a writer: %+v, %v", r, err)
	}
	if has, _ := s.HasBlob(t.Context(), garbage.Digest); !has {
		t.Error("pruned all the same")
	}
	end()
	dry, err := s.Prune(t.Context(), store.PruneOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if has, _ := s.HasBlob(t.Context(), garbage.Digest); !has {
		t.Error("a dry run pruned")
	}
	p, err := s.Prune(t.Context(), store.PruneOptions{})
	if err != nil || len(p.Items) != len(dry.Items) || p.Size != dry.Size {
		t.Errorf("Prune: %+v, %v; planned: %+v", p, err, dry)
	}
	for _, dir := range []string{"image/blobs/sha256", "data/overlay2"} {
		if left, err := os.ReadDir(filepath.Join(s.Root(), dir)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// kill runs childBuild and kills it while it waits at its n-th step. With goOn it
// does not wait there, and is killed some time after: anywhere, or not at all.
func kill(t *testing.T, root, name string, n int, goOn bool, after time.Duration) {
	t.Helper()
	args := []string{root, name}
	if !goOn {
		args = append(args, strconv.Itoa(n))
	}
	cmd := command(t.Context(), "build", args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for i := range n {
		if !lines.Scan() {
			t.Errorf("%d steps, want %d", i, n)
			break
		}
	}
	time.Sleep(after) // no synchronisation: any moment is a good one to die
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_ = stdin.Close()
}

// A build is killed at each of its steps, and at many moments of its commit:
// what was there before stays whole, what is visible is whole, and the next
// build goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts some forty processes")
	}
	root := t.TempDir()
	first := open(t, root)
	commit(t, first, "earlier", "one")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		s := open(t, root)
		all, err := s.Images(t.Context())
		if err != nil || len(all) == 0 {
			t.Fatalf("Images: %v, %v", all, err)
		}
		if _, err := s.Image(t.Context(), "earlier", nil); err != nil {
			t.Fatal(err)
		}
		for _, img := range all {
			if v, err := s.Verify(t.Context(), img.ID, store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
				t.Fatalf("%v: %+v, %v", img.Names, v, err)
			}
		}
		if left := temporaries(t, s); left != nil {
			t.Errorf("left: %v", left)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range buildSteps {
		kill(t, root, fmt.Sprintf("killed:n%d", n), n+1, false, 0)
		check()
	}
	for i := range 15 { // while it commits
		kill(t, root, fmt.Sprintf("killed:v%d", i), commitStep, true, time.Duration(i)*300*time.Microsecond)
		check()
	}
	if err := command(t.Context(), "build", root, "killed").Run(); err != nil {
		t.Fatal(err)
	}
	check()
	s := open(t, root)
	all, err := s.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range all {
		if _, err := s.Remove(t.Context(), img.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"image/blobs/sha256", "data/overlay2", "tmp"} {
		if left, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// After a power failure, which the record of a dead session from another boot
// stands for, what it published is read again and dropped where it is broken.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	commit(t, open(t, root), "earlier", "one")
	kill(t, root, "lost", commitStep, false, 0)
	records, err := filepath.Glob(filepath.Join(root, "tmp/session-*"))
	if err != nil || len(records) == 0 {
		t.Fatalf("no record: %v", err)
	}
	again := func(boot bool) *store.Store {
		for _, r := range records {
			b, err := os.ReadFile(r)
			if err != nil {
				continue
			}
			if head, rest, _ := bytes.Cut(b, []byte("\n")); boot && bytes.Contains(head, []byte(`"boot"`)) {
				b = append([]byte(`{"boot":"another"}`+"\n"), rest...)
			}
			if err := os.WriteFile(r, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return open(t, root)
	}
	whole, broken := describe(childBlob("lost", 0)).Digest, describe(childBlob("lost", 1)).Digest
	s := again(false)
	overwrite(t, s.BlobPath(broken), "")
	// The same boot: nothing is read, and the record stays for the next time.
	s = again(false)
	if has, _ := s.HasBlob(t.Context(), broken); !has {
		t.Error("dropped without a power failure")
	}
	s = again(true)
	for d, want := range map[digest.Digest]bool{whole: true, broken: false} {
		if has, _ := s.HasBlob(t.Context(), d); has != want {
			t.Errorf("blob %s: %v, want %v", d, has, want)
		}
	}
	if v, err := s.Verify(t.Context(), "earlier", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 || v.Layers != 2 {
		t.Errorf("earlier: %+v, %v", v, err)
	}
	if err := command(t.Context(), "build", root, "lost").Run(); err != nil {
		t.Error(err)
	}
	if v, err := s.Verify(t.Context(), "lost", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		t.Errorf("lost: %+v, %v", v, err)
	}
}

// Layers of a committed image that its process had noted come back.
func TestPowerFailureAfterCommit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	kill(t, root, "a", buildSteps, false, 0) // after its commit
	records, err := filepath.Glob(filepath.Join(root, "tmp/session-*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %v: %v", records, err)
	}
	b, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(b, []byte("sha256:")) != 2 {
		t.Fatalf("record: %s", b)
	}
	// The lines about the flush were never flushed themselves.
	_, notes, _ := bytes.Cut(b, []byte("\n"))
	notes = regexp.MustCompile(`(?m)^flush.*\n`).ReplaceAll(notes, nil)
	if err := os.WriteFile(records[0], append([]byte("{}\n"), notes...), 0o600); err != nil {
		t.Fatal(err)
	}
	layers, err := filepath.Glob(filepath.Join(root, "data/overlay2/*/d3/f"))
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	if err := os.Truncate(layers[0], 0); err != nil { // what a power failure does to a file
		t.Fatal(err)
	}
	s := open(t, root)
	if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 || v.Layers != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := os.Stat(records[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record: %v", err)
	}
}

// Ctrl-C leaves no temporaries, and what was finished is not asked for again.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := blob(t, s, "done")
	content := []byte("never finished")
	err := s.PutBlob(ctx, describe(content), func(w io.Writer) error {
		if _, err := w.Write(content[:3]); err != nil {
			return err
		}
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("PutBlob: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	_, err = s.WriteLayer(ctx, store.LayerOptions{}, func(w io.Writer) error {
		cancel()
		return writeTar(file("a", string(make([]byte, 50<<20))))(w)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("WriteLayer: %v", err)
	}
	if err := s.Commit(ctx, names(t, "a"), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: done.Digest}); err == nil {
		t.Error("Commit of no manifest")
	}
	if left := temporaries(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
	if has, _ := s.HasBlob(t.Context(), done.Digest); !has {
		t.Error("the finished blob is gone")
	}
}
