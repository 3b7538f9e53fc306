package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

// manifestLimit is so small that an image with any registry layer leaves its
// blobs to blob manifests (docs/format.md).
const manifestLimit = "manifest=1500"

// splitPulled is the name of the image with blob manifests that pull gets.
func (l *lab) splitPulled() string { return l.up.Host() + "/x/split:1" }

// splitOps are the operations on images with blob manifests: such an image is an
// index, and more of its documents must stay together.
func splitOps() []op {
	return []op{
		{name: "build split", changes: named("crash.example/splitbuild:1"), prepare: newContent, args: func(l *lab, _ int) []string {
			return []string{"build", "-q", "--limit", manifestLimit, "-t", "crash.example/splitbuild:1", l.dir + "/ctx4"}
		}},
		{name: "pull split", changes: func(l *lab) []string { return []string{l.splitPulled()} },
			prepare: func(l *lab, root string, _ int) error { return l.drop(root, l.splitPulled()) },
			args:    func(l *lab, _ int) []string { return []string{"pull", "-q", l.splitPulled()} }},
		{name: "push split", changes: named(), args: func(l *lab, n int) []string {
			return []string{"push", "-q", keepSplit, fmt.Sprintf("%s/x/pushsplit%d:1", l.up.Host(), n)}
		}},
		{name: "load split", changes: named("crash.example/splitload:1"), prepare: func(l *lab, root string, _ int) error { return l.drop(root, "crash.example/splitload:1") },
			args: func(l *lab, _ int) []string { return []string{"load", "-q", "-i", l.dir + "/splitload.tar"} }},
		{name: "merge split", changes: named("crash.example/splitmerge:1"), args: func(*lab, int) []string {
			return []string{"merge", "--limit", manifestLimit, "-t", "crash.example/splitmerge:1", keepOne, keepSplit}
		}},
		{name: "save split", changes: named(), prepare: noOutput, args: func(l *lab, _ int) []string {
			return []string{"save", "-o", l.dir + "/out.tar", keepSplit}
		}, after: afterSave("splitkeep.tar")},
	}
}

// farOps are the operations whose result lies in a registry or is for one.
func farOps() []op {
	return []op{
		{name: "save without", changes: named(), prepare: noOutput, args: func(l *lab, _ int) []string {
			return []string{"save", "-o", l.dir + "/out.tar", "--without", keepOne, keepTwo}
		}, after: afterSave("without.tar")},
		{name: "inventory", changes: named(), prepare: func(l *lab, _ string, _ int) error { return remove(l.dir + "/site.inv") },
			args: func(l *lab, _ int) []string { return []string{"inventory", "-o", l.dir + "/site.inv"} }, after: afterInventory},
		{name: "registry push", changes: named(), args: func(l *lab, n int) []string {
			return []string{"registry", "push", keepOne, "--to", fmt.Sprintf("%s/far%d", l.up.Host(), n)}
		}, after: afterRegistryPush},
		{name: "cache-to", changes: named("crash.example/cached:1"), prepare: newContent, args: func(l *lab, _ int) []string {
			cache := l.up.Host() + "/x/cache:1"
			return []string{"build", "-q", "--cache-from", cache, "--cache-to", cache, "-t", "crash.example/cached:1", l.dir + "/ctx4"}
		}},
	}
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// noOutput removes the archive of an earlier save.
func noOutput(l *lab, _ string, _ int) error { return remove(l.dir + "/out.tar") }

// afterInventory asks that the inventory is absent or can be read.
func afterInventory(l *lab, event, root string, whole bool) {
	name := l.dir + "/site.inv"
	if _, err := os.Stat(name); os.IsNotExist(err) && !whole {
		return
	}
	if out, err := l.run(root, "inventory", "--show", name); err != nil {
		l.lost("%s: %v\n%s", event, err, out)
	}
}

// afterRegistryPush asks that the registry shows the image itself under its tag, or
// nothing yet.
func afterRegistryPush(l *lab, event, _ string, whole bool) {
	var n int
	if _, err := fmt.Sscanf(event, "registry push %d", &n); err != nil {
		l.lost("%s: %v", event, err)
		return
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/v2/far%d/library/nginx/manifests/1.25", l.up.Host(), n))
	if err != nil {
		l.lost("%s: %v", event, err)
		return
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	switch want := l.up.Content("docker.io/library/nginx:1.25").Root.Digest.String(); {
	case err != nil || whole && resp.StatusCode != http.StatusOK:
		l.lost("%s: the tag is missing: %s %v", event, resp.Status, err)
	case resp.StatusCode == http.StatusOK && digestOf(b) != want:
		l.lost("%s: the tag leads to %s, want %s", event, digestOf(b), want)
	}
}
