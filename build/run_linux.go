package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/store"
)

// A runConfig is what RunChild is told.
type runConfig struct {
	Layers    []string    // directories for overlayfs, lowest first
	Dir       string      // for the mounts; has upper and work
	OwnUser   bool        // in a user namespace of its own: this process may not mount
	UserXattr bool        // in a user namespace: overlayfs marks by attributes "user."
	Chroot    bool        // the rootfs alone, not the machine's files
	Loopback  bool        // an own network, which needs its loopback up
	Env       []string    // of the command
	Args      []string    // the command
	Secrets   []runSecret // written to memory
}

// execute runs the command in namespaces of its own and makes a layer of what
// it wrote.
func (st *runStep) execute(ctx context.Context, t *target) (layer store.Layer, empty bool, err error) {
	dir, remove, err := t.b.s.TempDir(ctx)
	if err != nil {
		return layer, false, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for _, d := range []string{"upper", "work", "merged", "lower", "dev", "run", "tmp", "mnt"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return layer, false, err
		}
	}
	ownUser := !mayMount()
	userXattr := ownUser || store.InUserNamespace()
	layers, err := t.b.s.OverlayDirs(ctx, t.ids(), userXattr)
	if err != nil {
		return layer, false, err
	}
	for len(layers) < 1 { // overlayfs wants a lower directory
		empty := filepath.Join(dir, "nothing")
		if err := os.Mkdir(empty, 0o755); err != nil {
			return layer, false, err
		}
		layers = append(layers, empty)
	}
	args, files := st.command()
	c := runConfig{
		Layers: layers, Dir: dir, OwnUser: ownUser, UserXattr: userXattr, Chroot: t.b.o.Isolation == IsolationChroot,
		Loopback: st.network(t) == "none", Env: append(st.environment(t), proxies()...), Args: args, Secrets: append(files, st.secrets...),
	}
	made, err := t.mountPoints(c.Chroot)
	if err != nil {
		return layer, false, err
	}
	if err := t.child(ctx, c); err != nil {
		return layer, false, err
	}
	upper := filepath.Join(dir, "upper")
	for _, name := range made { // what only the isolation needed; os.Remove takes no directory that holds something
		if fi, err := os.Lstat(filepath.Join(upper, name)); err == nil && (fi.IsDir() || fi.Size() == 0) {
			_ = os.Remove(filepath.Join(upper, name))
		}
	}
	root, err := os.OpenRoot(upper)
	if err != nil {
		return layer, false, err
	}
	defer root.Close()
	u := &upperWalker{root: root, opaque: "trusted.overlay.opaque", linked: map[uint64]int{}, warn: func(msg string) { t.warn(st.in, msg) }}
	if userXattr {
		u.opaque = "user.overlay.opaque"
	}
	if err := u.walk("."); err != nil {
		return layer, false, err
	}
	if len(u.entries) == 0 {
		return layer, true, nil
	}
	entries, err := arrange(u.entries)
	if err != nil {
		return layer, false, err
	}
	layer, err = t.writeLayer(ctx, st.in, entries)
	return layer, false, err
}

// mountPoints returns the paths that isolation=chroot makes in the rootfs and
// that are to be taken out of the layer again, inner ones first.
func (t *target) mountPoints(chroot bool) ([]string, error) {
	if !chroot {
		return nil, nil
	}
	root, err := t.b.s.Rootfs(t.ids())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out []string
	for _, name := range []string{"etc/resolv.conf", "etc", "proc", "dev", "run", "tmp"} {
		if _, err := root.Lstat(name); err != nil {
			out = append(out, name)
		}
	}
	return out, nil
}
