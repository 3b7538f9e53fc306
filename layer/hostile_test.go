package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostileTar(t *testing.T) {
	t.Parallel()
	deep := string(bytes.Repeat([]byte("x/"), 1000)) + "x"
	for name, tc := range map[string]struct {
		entries []entry
		want    error             // nil: harmless
		files   map[string]string // of a harmless one, if it is given
	}{
		"dot dot":                   {entries: []entry{file("../../secret", "x")}, want: ErrInvalid},
		"dot dot inside":            {entries: []entry{file("a/../../secret", "x")}, want: ErrInvalid},
		"absolute":                  {entries: []entry{file("/etc/x", "x")}, files: map[string]string{"etc/x": "x"}},
		"through a symlink":         {entries: []entry{{name: "out", link: "../../../.."}, file("out/secret", "x")}, want: ErrInvalid},
		"through an absolute link":  {entries: []entry{{name: "out", link: "/tmp"}, file("out/secret", "x")}, want: ErrInvalid},
		"through two symlinks":      {entries: []entry{{name: "a", link: "b/.."}, {name: "b", link: ".."}, file("a/secret", "x")}, want: ErrInvalid},
		"onto a symlink":            {entries: []entry{{name: "out", link: "../../../../secret"}, file("out", "x")}, files: map[string]string{"out": "x"}},
		"directory onto a symlink":  {entries: []entry{{name: "out", link: "/tmp"}, {name: "out/"}, file("out/x", "x")}, files: map[string]string{"out/x": "x"}},
		"hard link out":             {entries: []entry{{name: "l", hard: "../../../../secret"}}, want: ErrInvalid},
		"hard link through a link":  {entries: []entry{{name: "out", link: "../../../.."}, {name: "l", hard: "out/secret"}}, want: ErrInvalid},
		"hard link to a symlink":    {entries: []entry{{name: "out", link: "../../../../secret"}, {name: "l", hard: "out"}, {name: "l", content: "x"}}, files: map[string]string{"l": "x"}},
		"hard link to nothing":      {entries: []entry{{name: "l", hard: "nothing"}}, want: ErrInvalid},
		"hard link to itself alone": {entries: []entry{{name: "a", hard: "a"}}, want: ErrInvalid},
		"directory into file":       {entries: []entry{{name: "d/", mode: 0o700}, file("d/x", "x"), {name: "d", content: "y", mode: 0o600}}, files: map[string]string{"d": "y"}},
		"directory into link":       {entries: []entry{{name: "d/", mode: 0o700}, file("x", "x"), {name: "d", link: "x"}}, files: map[string]string{"x": "x", "d": "x"}},
		"hard link to itself":       {entries: []entry{file("a", "x"), {name: "a", hard: "a"}}, files: map[string]string{"a": "x"}},
		"hard link in a directory":  {entries: []entry{file("a", "x"), {name: "b/c/d", hard: "a"}}, files: map[string]string{"a": "x", "b/c/d": "x"}},
		"hard link onto a file":     {entries: []entry{file("a", "x"), file("b", "y"), {name: "b", hard: "a"}}, files: map[string]string{"a": "x", "b": "x"}},
		"mode through a symlink":    {entries: []entry{{name: "out", link: "../../../../secret", mode: 0o777}}},
		"device":                    {entries: []entry{{name: "null", typ: tar.TypeChar}}, want: ErrInvalid},
		"block device":              {entries: []entry{{name: "disk", typ: tar.TypeBlock}}, want: ErrInvalid},
		"fifo":                      {entries: []entry{{name: "fifo", typ: tar.TypeFifo}}, want: ErrInvalid},
		"unknown type":              {entries: []entry{{name: "x", typ: 'Z'}}, want: ErrInvalid},
		"the root as a file":        {entries: []entry{file(".", "")}, want: ErrInvalid},
		"the root as a link":        {entries: []entry{{name: ".", link: "/tmp"}}, want: ErrInvalid},
		"a file as a directory":     {entries: []entry{file("a", "x"), file("a/b", "x")}, want: ErrInvalid},
		"a file twice a directory":  {entries: []entry{file("a", "x"), file("a/b/c", "x")}, want: ErrInvalid},
		"long name":                 {entries: []entry{file(strings.Repeat("x", 300), "x")}, want: ErrInvalid},
		"long directory":            {entries: []entry{file(strings.Repeat("x", 300)+"/x", "x")}, want: ErrInvalid},
		"deep":                      {entries: []entry{file(deep, "x")}, files: map[string]string{deep: "x"}},
		"twice":                     {entries: []entry{file("a", "1"), file("a", "22"), {name: "a/"}, file("a/b", "x")}, files: map[string]string{"a/b": "x"}},
		"whiteout of dot":           {entries: []entry{file("a/.wh..", "")}, want: ErrInvalid},
		"whiteout of dot dot":       {entries: []entry{file("a/.wh...", "")}, want: ErrInvalid},
		"whiteout of nothing":       {entries: []entry{file(".wh.", "")}, want: ErrInvalid},
		"whiteout with content":     {entries: []entry{file("d/.wh.a", "text")}, want: ErrInvalid},
		"opaque":                    {entries: []entry{file("d/.wh..wh..opq", "")}, files: map[string]string{"d/.wh..wh..opq": ""}},
		"whiteout as a link":        {entries: []entry{{name: ".wh.a", link: "/tmp"}}, files: map[string]string{".wh.a": ""}},
		"aufs":                      {entries: []entry{{name: ".wh..wh.plnk/"}, file(".wh..wh.aufs", "")}, files: map[string]string{}},
		"unwritable":                {entries: []entry{{name: "a/", mode: 0o1}, file("a/b", "x")}},
		"setuid":                    {entries: []entry{{name: "su", content: "x", mode: 0o4755}}},
		"from one to another":       {entries: []entry{file("a/b", "1"), file("c/d", "2"), file("a/e", "3"), {name: "a", link: "c"}, file("c/f", "4")}, files: map[string]string{"c/d": "2", "c/f": "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := write(t, Options{}, writeTar(tc.entries...))
			if !errors.Is(err, tc.want) || (err != nil && tc.want == nil) {
				t.Errorf("Write: %v, want %v", err, tc.want)
			}
			if err == nil {
				// The layer is what its blob says, and can be removed.
				if differences, err := Compare(t.Context(), l.dir, open(t, l.blob), Limits{}); err != nil || len(differences) > 0 {
					t.Errorf("Compare: %v, %v", differences, err)
				}
				if tc.files != nil {
					if diff := cmp.Diff(tc.files, regular(t, l.dir)); diff != "" {
						t.Errorf("files (-want +got):\n%s", diff)
					}
				}
			}
			if err := Remove(l.dir); err != nil {
				t.Error(err)
			}
		})
	}
}
