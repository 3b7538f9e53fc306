package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func blobPath(root, digest string) string {
	return filepath.Join(root, "image/blobs/sha256", strings.TrimPrefix(digest, "sha256:"))
}

// minimal prunes the store at root and asks that each blob and layer is of an
// image that the index names. It reads the documents itself, so that a fault of
// sealer's own reading shows.
func (l *lab) minimal(event, root string) {
	for _, args := range [][]string{{"prune", "--cache"}, {"prune"}} {
		if out, err := l.run(root, args...); err != nil {
			l.lost("%s: sealer %s: %v\n%s", event, strings.Join(args, " "), err, out)
			return
		}
	}
	needed := map[string]bool{}
	index, err := os.ReadFile(filepath.Join(root, "image/index.json"))
	if err == nil {
		err = reach(root, index, needed)
	}
	if err != nil {
		l.lost("%s: %v", event, err)
		return
	}
	for _, dir := range []string{"image/blobs/sha256", "data/overlay2"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			l.lost("%s: %v", event, err)
		}
		for _, e := range entries {
			if !needed[e.Name()] {
				l.lost("%s: prune leaves %s/%s", event, dir, e.Name())
			}
		}
	}
	entries, _ := os.ReadDir(filepath.Join(root, "tmp"))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "session") {
			l.lost("%s: prune leaves tmp/%s", event, e.Name())
		}
	}
}

// reach adds to needed the hex digests of the blobs and layers that the document
// b needs: an index, or a manifest with its config.
func reach(root string, b []byte, needed map[string]bool) error {
	type descriptor struct{ MediaType, Digest string }
	var doc struct {
		Manifests, Layers []descriptor
		Config            *descriptor
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return err
	}
	for _, m := range doc.Manifests {
		needed[strings.TrimPrefix(m.Digest, "sha256:")] = true
		b, err := os.ReadFile(blobPath(root, m.Digest))
		if os.IsNotExist(err) {
			continue // of another platform, in an index
		} else if err != nil {
			return err
		}
		if err := reach(root, b, needed); err != nil {
			return err
		}
	}
	for _, l := range doc.Layers {
		needed[strings.TrimPrefix(l.Digest, "sha256:")] = true
	}
	if doc.Config == nil {
		return nil
	}
	needed[strings.TrimPrefix(doc.Config.Digest, "sha256:")] = true
	var config struct{ Layers []struct{ ID string } }
	b, err := os.ReadFile(blobPath(root, doc.Config.Digest))
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	for _, l := range config.Layers {
		needed[strings.TrimPrefix(l.ID, "sha256:")] = true
	}
	return err
}
