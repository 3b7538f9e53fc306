package kubefile_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/kubefile"
)

// FuzzTarget: no source and no DEST leads out of the rootfs.
func FuzzTarget(f *testing.F) {
	f.Add("etc", ".", byte(0))
	f.Add("../../x", "/../..", byte(7))
	f.Add("a/.", "b/", byte(31))
	f.Add("..", "charts/..", byte(8))
	f.Fuzz(func(t *testing.T, source, dest string, flags byte) {
		name := kubefile.SourceName(source)
		if strings.Contains(name, "/") || name == "." || name == ".." {
			t.Fatalf("the name of %q is %q", source, name)
		}
		c := kubefile.Copy{Dest: dest}
		src := kubefile.Source{Path: source, Name: name, Dir: flags&1 != 0, Alone: flags&2 != 0, Inline: flags&4 != 0}
		got := c.Target(src, flags&8 != 0, flags&16 != 0)
		if p := got.Path; strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../") || !fs.ValidPath(p) && strings.ToValidUTF8(p, "") == p {
			t.Errorf("COPY %q %q goes to %q", source, dest, p)
		}
		if again := c.Target(src, flags&8 != 0, flags&16 != 0); again != got {
			t.Errorf("COPY %q %q goes to %v, then to %v", source, dest, got, again)
		}
	})
}
