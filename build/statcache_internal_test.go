package build

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is learnt joins what was known, before, between and behind it, and
// replaces it.
func TestStatCacheSave(t *testing.T) {
	t.Parallel()
	dir, context := t.TempDir(), t.TempDir()
	begun := time.Unix(1000, 0)
	want := map[string]byte{}
	for round, names := range [][]string{{}, {"b", "d/a", "d/c"}, {"a", "b", "d", "d/b", "d/c", "e"}, {"d/a"}, {"z", "zz"}} {
		c := openStatCache(dir, context)
		for _, name := range names {
			c.put(&entry{path: name, stat: &fileStat{}}, []byte{byte(round)}, begun)
			want[name] = byte(round)
		}
		if err := c.save(); err != nil {
			t.Fatal(err)
		}
		c = openStatCache(dir, context)
		got := map[string]byte{}
		for i := range c.index {
			name := string(c.name(i))
			if _, sum, ok := c.find(name); ok {
				got[name] = sum[0]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("round %d: %s", round, diff)
		}
	}
}
