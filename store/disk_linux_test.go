package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/store"
)

// private runs a child in a mount namespace of its own, where it may mount.
func private(t *testing.T, what string) {
	t.Helper()
	cmd := command(t.Context(), what, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 || what == "overlay" {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || bytes.Contains(out, []byte("mount: operation not permitted")) {
		t.Skip("no mount namespace here")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func mountTmpfs(dir, options string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	private(t, "full")
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	private(t, "readonly")
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(b)
	return b
}

// childFull fills a file system of 8 MiB: every write ends in one clear error
// and leaves nothing, and the image that was there stays whole.
func childFull(ctx context.Context, dir string) error {
	if err := mountTmpfs(dir, "size=8m"); err != nil {
		return err
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	if err := childBuild(ctx, s, "earlier", -1); err != nil {
		return err
	}
	big := random(10 << 20)
	full := map[string]error{
		"blob": s.PutBlob(ctx, describe(big), copyIn(big)),
	}
	_, full["layer"] = s.WriteLayer(ctx, store.LayerOptions{}, writeTar(file("big", string(big))))
	_, full["unpacked layer"] = s.WriteLayer(ctx, store.LayerOptions{}, writeTar(file("zeros", string(make([]byte, 10<<20)))))
	for i := 0; full["small blobs"] == nil; i++ {
		b := append(random(500_000), byte(i), byte(i>>8))
		full["small blobs"] = s.PutBlob(ctx, describe(b), copyIn(b))
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), nil, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for { // to the last byte
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	fresh, err := store.Open(dir, store.Options{})
	if err != nil {
		return fmt.Errorf("open a full store: %w", err)
	}
	full["first write"] = fresh.Hold(ctx)
	full["tag"] = s.Tag(ctx, "earlier", named("other"))
	for what, err := range full {
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("%s: %w; want one error: no space left", what, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(entries) > 1 {
		return fmt.Errorf("left: %v, %w", entries, err)
	}
	if v, err := s.Verify(ctx, "earlier", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		return fmt.Errorf("earlier: %+v, %w", v, err)
	}
	// A full disk can be pruned, and then is good again.
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	if _, err := s.Prune(ctx, store.PruneOptions{}); err != nil {
		return err
	}
	return childBuild(ctx, s, "later", -1)
}

// childReadOnly reads from a store that cannot be written, and sees one clear
// error for each write.
func childReadOnly(ctx context.Context, dir string) error {
	if err := mountTmpfs(dir, "size=50m"); err != nil {
		return err
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(childBuild(ctx, s, "a", -1), s.Close(), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
		return err
	}
	if s, err = store.Open(dir, store.Options{}); err != nil {
		return err
	}
	img, err := s.Image(ctx, "a", nil)
	if err != nil {
		return err
	}
	if v, err := s.Verify(ctx, "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		return fmt.Errorf("verify: %+v, %w", v, err)
	}
	if _, err := s.Save(ctx, io.Discard, []string{"a"}, store.SaveOptions{}); err != nil {
		return err
	}
	present := img.Layers[0].Descriptors[0]
	if err := s.PutBlob(ctx, present, copyIn(nil)); err != nil {
		return fmt.Errorf("a blob that is there: %w", err)
	}
	denied := map[string]error{
		"put":    s.PutBlob(ctx, describe([]byte("x")), copyIn([]byte("x"))),
		"tag":    s.Tag(ctx, "a", named("b")),
		"commit": s.Commit(ctx, nil, img.Descriptor),
	}
	_, denied["layer"] = s.WriteLayer(ctx, store.LayerOptions{}, writeTar(file("a", "x")))
	_, denied["remove"] = s.Remove(ctx, "a")
	_, denied["prune"] = s.Prune(ctx, store.PruneOptions{})
	for what, err := range denied {
		if !errors.Is(err, syscall.EROFS) || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("%s: %w; want one error: read-only file system", what, err)
		}
	}
	return nil
}
