package build

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/rootfs"
)

// owner returns the numbers that --chown means. Names are looked up in
// etc/passwd and etc/group of the rootfs below, as Dockerfile's COPY does:
// a user's name alone brings its group, a number alone is both.
func (pb *platformBuild) owner(chown string) (uid, gid int, err error) {
	if chown == "" {
		return 0, 0, nil
	}
	user, group, both := strings.Cut(chown, ":")
	root, err := pb.b.s.Rootfs(pb.ids())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	ids, err := lookup(root, "passwd", "user", user)
	if err != nil {
		return 0, 0, fmt.Errorf("--chown=%s: %w", chown, err)
	}
	uid, gid = ids[0], ids[len(ids)-1]
	if both {
		if ids, err = lookup(root, "group", "group", group); err != nil {
			return 0, 0, fmt.Errorf("--chown=%s: %w", chown, err)
		}
		gid = ids[0]
	}
	return uid, gid, nil
}

// lookup returns the numbers in the line of name in etc/file: a user's own and
// its group's, or a group's; passwd(5), group(5).
func lookup(root *rootfs.FS, file, what, name string) ([]int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return []int{n}, nil
	}
	f, err := root.Open("etc/" + file)
	switch {
	case err == nil:
		defer f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case name == "root":
		return []int{0}, nil
	default:
		return nil, fmt.Errorf("the rootfs has no etc/%s, so no %s %s: use a number, or copy the file first", file, what, name)
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxSmallFile))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if fields[0] != name || len(fields) < 4 {
			continue
		}
		numbers := fields[2:4]
		if what == "group" {
			numbers = fields[2:3]
		}
		var out []int
		for _, s := range numbers {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("etc/%s: the %s %s has no number", file, what, name)
			}
			out = append(out, int(n))
		}
		return out, nil
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("etc/%s: %w", file, err)
	}
	if name == "root" {
		return []int{0}, nil
	}
	return nil, fmt.Errorf("etc/%s of the rootfs has no %s %s: use a number, or make the %s in a RUN before", file, what, name, what)
}
