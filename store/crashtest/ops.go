package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An op is one operation that an event meets.
type op struct {
	name    string
	prepare func(l *lab, root string, n int) error // nil: nothing
	args    func(l *lab, n int) []string
	changes func(l *lab) []string                        // names that it may add, move or remove
	after   func(l *lab, event, root string, whole bool) // nil: nothing; whole: it ended with success
}

func named(names ...string) func(*lab) []string { return func(*lab) []string { return names } }

// ops are the operations on a store.
var ops = slices.Concat(newerOps(), farOps(), splitOps(), []op{
	{name: "build", changes: named("crash.example/build:1"), prepare: newContent, args: func(l *lab, _ int) []string {
		return []string{"build", "-q", "-t", "crash.example/build:1", l.dir + "/ctx4"}
	}},
	{name: "pull", changes: func(l *lab) []string { return []string{l.pulled()} }, prepare: func(l *lab, root string, _ int) error { return l.drop(root, l.pulled()) },
		args: func(l *lab, _ int) []string { return []string{"pull", "-q", l.pulled()} }},
	{name: "push", changes: named(), args: func(l *lab, n int) []string {
		return []string{"push", "-q", keepTwo, fmt.Sprintf("%s/x/push%d:1", l.up.Host(), n)}
	}},
	{name: "load", changes: named("crash.example/load:1"), prepare: func(l *lab, root string, _ int) error { return l.drop(root, "crash.example/load:1") },
		args: func(l *lab, _ int) []string { return []string{"load", "-q", "-i", l.dir + "/load.tar"} }},
	{name: "save", changes: named(), prepare: noOutput, args: func(l *lab, _ int) []string { return []string{"save", "-o", l.dir + "/out.tar", keepOne} },
		after: afterSave("keep.tar")},
	{name: "merge", changes: named("crash.example/merge:1"), args: func(*lab, int) []string {
		return []string{"merge", "-t", "crash.example/merge:1", keepOne, keepTwo}
	}},
	{name: "tag", changes: named("crash.example/tag:1"), args: func(*lab, int) []string { return []string{"tag", keepOne, "crash.example/tag:1"} }},
	{name: "rmi", changes: named("crash.example/gone:1"), prepare: func(l *lab, root string, n int) error {
		if err := write(l.dir+"/ctx3/files/new", fmt.Sprint("gone ", n, strings.Repeat("x", 100_000))); err != nil {
			return err
		}
		_, err := l.run(root, "build", "-q", "-t", "crash.example/gone:1", l.dir+"/ctx3")
		return err
	}, args: func(*lab, int) []string { return []string{"rmi", "crash.example/gone:1"} }},
	{name: "prune", changes: named(), args: func(*lab, int) []string { return []string{"prune"} }},
	{name: "repair", changes: named(), prepare: func(l *lab, root string, _ int) error { return l.damage(root) },
		args: func(*lab, int) []string { return []string{"verify", "--repair", keepThree} }},
})

// op returns the operation of event i. A part begins with any, so that short runs
// do not all try the same few.
func (l *lab) op(i int) op { return ops[(l.first+i)%len(ops)] }

// newContent gives builds of ctx4 a file that no earlier build had.
func newContent(l *lab, _ string, n int) error {
	return write(l.dir+"/ctx4/files/new", fmt.Sprint("content ", n, strings.Repeat("x", 100_000)))
}

// drop removes an image, if it is there, and all that it alone needed.
func (l *lab) drop(root, name string) error {
	have, err := l.images(root)
	if err != nil {
		return err
	}
	if _, ok := have[name]; ok {
		_, err = l.run(root, "rmi", name)
	}
	return err
}

// damage changes a byte of the largest blob that keepThree alone has.
func (l *lab) damage(root string) error {
	var largest []byte
	for _, b := range l.up.Content("docker.io/calico/node:v3.27.0").Blobs {
		if _, err := os.Stat(blobPath(root, digestOf(b))); err == nil && len(b) > len(largest) {
			largest = b
		}
	}
	path := blobPath(root, digestOf(largest))
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{largest[0] ^ 0xff}, 0)
	return errors.Join(err, f.Close())
}

// afterSave asks that the archive is absent, or the whole one, as seed has made it.
func afterSave(want string) func(l *lab, event, root string, whole bool) {
	return func(l *lab, event, _ string, whole bool) {
		b, err := os.ReadFile(l.dir + "/out.tar")
		absent := os.IsNotExist(err) && !whole
		if !absent && (err != nil || !bytes.Equal(b, l.saved[want])) {
			l.lost("%s: the archive has %d bytes, want %d: %v", event, len(b), len(l.saved[want]), err)
		}
		left, _ := filepath.Glob(l.dir + "/.out.tar*")
		for _, f := range left {
			if whole {
				l.lost("%s: %s is left", event, f)
			}
			_ = os.Remove(f) // of a save that was killed
		}
	}
}

// A hit runs the command args and disturbs it. sound are the images that must be
// whole meanwhile, may those that may be visible, too. It returns the error of the
// command.
type hit func(event string, args []string, sound map[string]string, may []string) (disturbed bool, err error)

// event runs o under hit, checks the store, calls relieve, if there is one, and
// repeats o if it failed.
func (l *lab) event(o op, root string, n int, hit hit, relieve func(event string)) {
	name := fmt.Sprintf("%s %d", o.name, n)
	for _, part := range splitParts(l) {
		_ = os.Remove(part)
	}
	if o.prepare != nil {
		if err := o.prepare(l, root, n); err != nil {
			l.lost("%s: prepare: %v", name, err)
			return
		}
	}
	before, err := l.images(root)
	if err != nil {
		l.lost("%s: images: %v", name, err)
		return
	}
	changes := o.changes(l)
	for _, c := range changes {
		delete(before, c)
	}
	args := o.args(l, n)
	sound := maps.Clone(before)
	may := changes
	if o.name == "repair" {
		delete(sound, keepThree) // it was damaged by this test
		may = append(may, keepThree)
	}
	disturbed, err := hit(name, args, sound, may)
	switch {
	case !disturbed:
		l.tooFast++
	case err != nil:
		l.failed++
	}
	l.events++
	l.check(name, root, sound, may...)
	l.after(o, name, root, err == nil)
	if relieve != nil {
		relieve(name)
	}
	if err != nil && (o.name != "rmi" || !l.gone(root)) {
		if out, err := l.run(root, args...); err != nil {
			l.lost("%s: repeated: %v\n%s", name, err, out)
			return
		}
		l.after(o, name+" repeated", root, true)
	}
	if o.name != "rmi" {
		l.verify(name+" done", root, append(slices.Sorted(maps.Keys(before)), o.changes(l)...))
	}
}

func (l *lab) after(o op, event, root string, whole bool) {
	if o.after != nil {
		o.after(l, event, root, whole)
	}
}

func (l *lab) gone(root string) bool {
	have, err := l.images(root)
	_, there := have["crash.example/gone:1"]
	return err == nil && !there
}
