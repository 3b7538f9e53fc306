package redirect_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/redirect"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	files := []redirect.File{{Path: "Kubefile", Content: []byte("FROM scratch\n")}, {Path: "scripts/x.sh", Content: []byte("#!/bin/sh\n"), Executable: true}}
	write := func(force bool, want string) {
		t.Helper()
		written, err := redirect.Write(dir, files, force)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range written {
			got = append(got, w.State)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("Write: %s, want %s", s, want)
		}
	}
	write(false, "new new")
	write(false, "unchanged unchanged")
	if err := os.WriteFile(filepath.Join(dir, "Kubefile"), []byte("FROM mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := redirect.Write(dir, files, false)
	if !errors.Is(err, redirect.ErrOccupied) || !strings.Contains(err.Error(), "Kubefile (changed), notes.txt") {
		t.Errorf("Write into an occupied directory = %v", err)
	}
	for i := range 30 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("other-%02d/deep/er", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = redirect.Write(dir, files, false)
	if err == nil || !strings.HasSuffix(err.Error(), "other-17/ and 12 more") || strings.Contains(err.Error(), "deep") || strings.Contains(err.Error(), "empty/") {
		t.Errorf("Write beside many directories = %v", err)
	}
	write(true, "replaced unchanged")
	if info, err := os.Stat(filepath.Join(dir, "scripts/x.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("script: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Errorf("a file that is not ours: %v", err)
	}
}
