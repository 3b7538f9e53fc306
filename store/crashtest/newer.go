package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// newerOps are the operations that make layers by commands, archives in several
// ways, and mounts. Those that mount need root.
func newerOps() []op {
	out := []op{
		{name: "delta", changes: named("crash.example/delta:1"), prepare: func(l *lab, root string, _ int) error { return l.drop(root, "crash.example/delta:1") },
			args: func(l *lab, _ int) []string { return []string{"load", "-q", "-i", l.dir + "/delta.tar"} }},
		{name: "split", changes: named(), args: func(l *lab, _ int) []string {
			return []string{"save", "--split", "200KiB", "-o", l.dir + "/split.tar", keepOne}
		}, after: afterSplit},
		{name: "export", changes: named(), args: func(*lab, int) []string { return []string{"export", keepTwo, "-"} }},
	}
	if os.Geteuid() != 0 {
		return out
	}
	return append(out,
		op{name: "run", changes: named("crash.example/run:1"), prepare: func(l *lab, _ string, n int) error {
			return write(l.dir+"/ctx7/files/new", fmt.Sprint("content ", n, strings.Repeat("x", 100_000)))
		}, args: func(l *lab, _ int) []string {
			return []string{"build", "-q", "-t", "crash.example/run:1", l.dir + "/ctx7"}
		}},
		op{name: "mount", changes: named(), args: func(*lab, int) []string {
			return []string{"mount", "--rw", keepOne, "--", "sh", "-c", "echo changed > new"}
		}},
	)
}

// splitParts returns the files of a save in parts, in order; the checksums last.
func splitParts(l *lab) []string {
	parts, _ := filepath.Glob(l.dir + "/split.tar.*") // the pattern is sound
	slices.Sort(parts)
	return parts
}

// afterSplit asks that the parts are the whole archive if their checksums are
// there, which come last.
func afterSplit(l *lab, event, _ string, whole bool) {
	var all []byte
	listed := false
	for _, part := range splitParts(l) {
		if filepath.Ext(part) == ".sha256" {
			listed = true
			continue
		}
		b, err := os.ReadFile(part)
		if err != nil {
			l.lost("%s: %v", event, err)
			return
		}
		all = append(all, b...)
	}
	if (whole || listed) && (!listed || !bytes.Equal(all, l.saved["keep.tar"])) {
		l.lost("%s: the parts have %d bytes, want %d, checksums %v", event, len(all), len(l.saved["keep.tar"]), listed)
	}
}
