package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Save keeps the content of r, flushed to the disk, and returns its digest.
func (j *Journal) Save(r io.Reader) (digest string, err error) {
	dir := filepath.Join(j.dir, "saved")
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, h), r); err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	name := hex.EncodeToString(h.Sum(nil))
	if err := errors.Join(f.Sync(), f.Close(), os.Rename(f.Name(), filepath.Join(dir, name)), syncDir(dir)); err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	return "sha256:" + name, nil
}

// OpenSaved opens the content that Save stored under the digest. The caller
// closes the file and compares the digest of the bytes read: a damaged copy is
// not noticed here.
func (j *Journal) OpenSaved(digest string) (*os.File, error) {
	name, ok := strings.CutPrefix(digest, "sha256:")
	if _, err := hex.DecodeString(name); !ok || err != nil || len(name) != 2*sha256.Size {
		return nil, fmt.Errorf("saved content: %q is no digest", digest)
	}
	f, err := os.Open(filepath.Join(j.dir, "saved", name))
	if err != nil {
		return nil, fmt.Errorf("saved content: %w", err)
	}
	return f, nil
}
