package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/journal"
)

func file(name, was, now string) *journal.Change {
	c := &journal.Change{What: journal.File, Name: name, Now: now}
	if was != "" {
		c.Was = &journal.State{Digest: was}
	}
	return c
}

// script are the records of three steps: one done, one failed, one cut off.
func script() []journal.Record {
	return []journal.Record{
		{Event: journal.Begin, Step: "a", Kind: "files"},
		{Event: journal.Changed, Step: "a", Change: file("/etc/x", "", "1")},
		{Event: journal.End, Step: "a"},
		{Event: journal.Begin, Step: "b", Kind: "files"},
		{Event: journal.Changed, Step: "b", Change: file("/etc/y", "0", "2")},
		{Event: journal.Failed, Step: "b", Error: "no space"},
		{Event: journal.Begin, Step: "c", Kind: "files"},
		{Event: journal.Changed, Step: "c", Change: file("/etc/y", "2", "3")},
	}
}

func write(t *testing.T, dir string, records []journal.Record) {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, script())
	rs, err := journal.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !rs.Done("a") || rs.Done("b") || rs.Done("c") {
		t.Errorf("done: a %t, b %t, c %t", rs.Done("a"), rs.Done("b"), rs.Done("c"))
	}
	if open := rs.Open(); len(open) != 1 || open[0].Step != "c" {
		t.Errorf("open: %v", open)
	}
	var got []string
	for _, r := range rs.Inventory() {
		was := "-"
		if r.Change.Was != nil {
			was = r.Change.Was.Digest
		}
		got = append(got, r.Change.Name+" "+was+" "+r.Change.Now)
	}
	// Of /etc/y the first state counts.
	if diff := cmp.Diff([]string{"/etc/y 0 3", "/etc/x - 1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUndoneIsNoInventory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, append(script(), journal.Record{Event: journal.Undone, Step: "c", Change: file("/etc/y", "", "")}))
	rs, err := journal.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if inv := rs.Inventory(); len(inv) != 1 || inv[0].Change.Name != "/etc/x" {
		t.Errorf("inventory: %v", inv)
	}
}

// A journal that was cut at any byte opens with the whole records before the
// cut, and the next record follows them.
func TestTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, script())
	whole, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		for _, tail := range []string{"", "\x00\x00\x00", "{\"seq\": 99}\n"} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal"), append(bytes.Clone(whole[:cut]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			want := bytes.Count(whole[:cut], []byte("\n"))
			write(t, dir, []journal.Record{{Event: journal.Begin, Step: "next"}})
			rs, err := journal.Read(dir)
			if err != nil {
				t.Fatalf("cut at %d, tail %q: %v", cut, tail, err)
			}
			if len(rs) != want+1 || rs[want].Step != "next" || rs[want].Seq != want+1 {
				t.Fatalf("cut at %d, tail %q: %d records, want %d and one more", cut, tail, len(rs), want)
			}
		}
	}
}

func TestDamageInTheMiddleIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, script())
	name := filepath.Join(dir, "journal")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	lines[2] = "garbage\n"
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(dir, journal.Options{}); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("err = %v, want %v", err, journal.ErrDamaged)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != strings.Join(lines, "") {
		t.Errorf("the damaged journal was changed: %v", err)
	}
}

func TestSaved(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.TempDir(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	d, err := j.Save(strings.NewReader("before"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := j.OpenSaved(d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil || b.String() != "before" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if _, err := j.OpenSaved("sha256:../../etc/passwd"); err == nil {
		t.Error("a digest that leaves the directory was opened")
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := journal.Acquire(dir, journal.Holder{Name: "ann@desk", PID: 7, Verb: "create"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = journal.Acquire(dir, journal.Holder{Name: "bob@lab"})
	if !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), "ann@desk") {
		t.Errorf("err = %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l, err = journal.Acquire(dir, journal.Holder{Name: "bob@lab"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A lock whose file a holder removes keeps nobody out any more: whoever waited with
// that file open makes a new one.
func TestLockThatItsHolderRemoves(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lock.d")
	var held atomic.Int32
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for done := 0; done < 50; {
				l, err := journal.Acquire(dir, journal.Holder{Name: "me"})
				if errors.Is(err, journal.ErrLocked) {
					continue
				}
				if err != nil {
					return err
				}
				if n := held.Add(1); n != 1 {
					return fmt.Errorf("%d hold the lock", n)
				}
				done++
				held.Add(-1) // once the file is gone, another may hold the next
				err = os.Remove(filepath.Join(dir, "lock"))
				_ = os.Remove(dir) // not when somebody has made the next lock
				if err := errors.Join(err, l.Release()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
