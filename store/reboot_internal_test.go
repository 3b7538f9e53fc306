package store

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

const otherBoot = "00000000-0000-0000-0000-000000000000"

// leaveRecord writes the session record of a process that died, as it began an
// hour ago, and wrote to it last half an hour ago.
func leaveRecord(t *testing.T, s *Store, name, boot string, lines ...string) (path string) {
	t.Helper()
	began := time.Now().Add(-time.Hour)
	head := `{"boot":"` + boot + `","pid":1,"began":"` + began.Format(time.RFC3339Nano) + `"}`
	path = s.path("tmp", sessionPrefix+name)
	if err := os.WriteFile(path, []byte(strings.Join(append([]string{head}, lines...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := began.Add(30 * time.Minute)
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
	return path
}

// brokenBlob writes a blob whose content is not its digest's, at a time.
func brokenBlob(t *testing.T, s *Store, name string, at time.Time) digest.Digest {
	t.Helper()
	d := digest.FromString(name)
	if err := errors.Join(os.WriteFile(s.BlobPath(d), []byte("zeros"), 0o600), os.Chtimes(s.BlobPath(d), at, at)); err != nil {
		t.Fatal(err)
	}
	return d
}

func there(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// logged opens the store of root and returns it with the warnings of Open.
func logged(t *testing.T, root string) (*Store, string) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(root, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, log.String()
}

// alarmed reports whether warnings tell of a store that could not be put in order.
func alarmed(warned string) bool {
	return strings.Contains(warned, "mend the store") || strings.Contains(warned, "not whole") || strings.Contains(warned, "clear temporaries")
}

// builtImage writes the image of buildTest, and returns it.
func builtImage(t *testing.T, s *Store) *Image {
	t.Helper()
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	img, err := s.Image(t.Context(), "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// built makes the store of root with an image, closes it, and returns the
// directory of its rootfs layer.
func built(t *testing.T, root string) (s *Store, layerID digest.Digest) {
	t.Helper()
	s = openTest(t, root)
	img := builtImage(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s, img.Layers[0].ID
}

// After the machine has stopped, layers of dead processes of that time are unpacked
// again, and their blobs are read. Processes that died since lost nothing: the page
// cache has it.
func TestOpenAfterReboot(t *testing.T) {
	t.Parallel()
	for boot, again := range map[string]bool{otherBoot: true, bootID(): false} {
		if boot == "" {
			continue // this system does not tell its boots apart: see bootID
		}
		s, id := built(t, t.TempDir())
		before, err := os.Stat(s.LayerDir(id))
		if err != nil {
			t.Fatal(err)
		}
		record := leaveRecord(t, s, "dead", boot, string(id))
		other := leaveRecord(t, s, "before", otherBoot)
		sound := digest.FromBytes(mirrored())
		written := brokenBlob(t, s, "written by it", time.Now().Add(-50*time.Minute))
		older := brokenBlob(t, s, "older than all records", time.Now().Add(-3*time.Hour))

		s, warned := logged(t, s.root)
		now, err := os.Stat(s.LayerDir(id))
		if err != nil || os.SameFile(before, now) == again {
			t.Errorf("boot %s: the layer is the same file: %v, %v; want %v", boot, os.SameFile(before, now), err, !again)
		}
		if there(t, record) == again || there(t, other) {
			t.Errorf("boot %s: the records are there: %v, %v", boot, there(t, record), there(t, other))
		}
		if there(t, s.BlobPath(written)) || !there(t, s.BlobPath(older)) || !there(t, s.BlobPath(sound)) {
			t.Errorf("boot %s: blobs: broken %v, older %v, sound %v", boot, there(t, s.BlobPath(written)), there(t, s.BlobPath(older)), there(t, s.BlobPath(sound)))
		}
		if strings.Contains(warned, "drop a layer") != again || strings.Count(warned, "drop a blob") != 1 || !strings.Contains(warned, string(written)) || alarmed(warned) {
			t.Errorf("boot %s: warnings: %s", boot, warned)
		}
		verifyTest(t, s)
	}
}

// A record that cannot be read lets the blobs be read that are younger than it: a
// record is written before the first of them.
func TestOpenWithAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	s, _ := built(t, t.TempDir())
	record := s.path("tmp", sessionPrefix+"cut")
	written := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(record, []byte(`{"boot":`), 0o600), os.Chtimes(record, written, written)); err != nil {
		t.Fatal(err)
	}
	younger := brokenBlob(t, s, "younger", written.Add(time.Minute))
	older := brokenBlob(t, s, "older", written.Add(-2*time.Hour))
	s, _ = logged(t, s.root)
	if there(t, record) || there(t, s.BlobPath(younger)) || !there(t, s.BlobPath(older)) {
		t.Errorf("record %v, younger blob %v, older blob %v", there(t, record), there(t, s.BlobPath(younger)), there(t, s.BlobPath(older)))
	}
	verifyTest(t, s)
}

// A process of this boot that died after a failed flush is mended when the store is
// opened, and nothing is warned of but that.
func TestOpenAfterAFailedFlush(t *testing.T) {
	t.Parallel()
	s, id := built(t, t.TempDir())
	if bootID() == "" {
		t.Skip("this system does not tell its boots apart")
	}
	record := leaveRecord(t, s, "failed", bootID(), string(id), lineFailed)
	s, warned := logged(t, s.root)
	if there(t, record) {
		t.Error("the record is left: its content was not proved")
	}
	if strings.Count(warned, "the disk failed to take") != 1 || alarmed(warned) {
		t.Errorf("warnings: %s", warned)
	}
	verifyTest(t, s)
}

// Open clears what a dead process left without a word.
func TestOpenClearsQuietly(t *testing.T) {
	t.Parallel()
	s, _ := built(t, t.TempDir())
	left := s.path("tmp", "layer-left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, warned := logged(t, s.root); warned != "" || there(t, left) {
		t.Errorf("left %v, warnings: %s", there(t, left), warned)
	}
}

// An image that cannot be unpacked again is told by its name; the others are.
func TestOpenTellsAnImageThatIsNotWhole(t *testing.T) {
	t.Parallel()
	s, id := built(t, t.TempDir())
	img, err := s.Image(t.Context(), "app", nil)
	if err != nil {
		t.Fatal(err)
	}
	leaveRecord(t, s, "dead", otherBoot, string(id))
	if err := os.Remove(s.BlobPath(img.Layers[0].Descriptors[0].Digest)); err != nil {
		t.Fatal(err)
	}
	if _, warned := logged(t, s.root); !strings.Contains(warned, "an image is not whole") || !strings.Contains(warned, "docker.io/library/app:latest") {
		t.Errorf("warnings: %s", warned)
	}
}
