package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/image"
)

// execute runs the command in a sandbox and makes a layer of its changes. empty
// reports a command without changes.
func (st *runStep) execute(ctx context.Context, pb *platformBuild) (layer image.Layer, empty bool, err error) {
	dir, remove, err := pb.b.s.TempDir(ctx)
	if err != nil {
		return layer, false, fmt.Errorf("make a directory for the command: %w", err)
	}
	defer func() {
		if rerr := remove(); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove the directory of the command: %w", rerr))
		}
	}()
	made, err := pb.mountPoints()
	if err != nil {
		return layer, false, fmt.Errorf("read the rootfs: %w", err)
	}
	userXattr, err := st.runIn(ctx, pb, dir)
	if err != nil {
		return layer, false, err
	}
	root, err := os.OpenRoot(filepath.Join(dir, sandbox.Upper))
	if err != nil {
		return layer, false, fmt.Errorf("read the files that the command wrote: %w", err)
	}
	defer root.Close()
	removeEmpty(root, made)
	u := newUpperWalker(root, userXattr, func(msg string) { pb.warn(st.in, msg) })
	if err := u.walk("."); err != nil {
		return layer, false, fmt.Errorf("read the files that the command wrote: %w", err)
	}
	if len(u.entries) == 0 {
		return layer, true, nil
	}
	entries, err := arrange(u.entries)
	if err != nil {
		return layer, false, fmt.Errorf("read the files that the command wrote: %w", err)
	}
	layer, err = pb.writeLayer(ctx, st.in, entries)
	return layer, false, err
}

// runIn runs the command over the layers so far. Its changes are in dir, with
// overlayfs's marks in attributes "user." or "trusted.".
func (st *runStep) runIn(ctx context.Context, pb *platformBuild, dir string) (userXattr bool, err error) {
	out := &lines{emit: func(line string) { pb.b.event(Event{Line: pb.prefix + line}) }}
	defer out.flush()
	s, err := sandbox.Start(ctx, sandbox.Options{
		Dir: dir, Chroot: pb.b.o.Isolation == IsolationChroot, NoNetwork: st.network(pb) == "none", Output: out,
		Hide: []string{pb.b.s.Root()},
	})
	if err != nil {
		return false, interrupted(ctx, err)
	}
	defer s.Close()
	for _, effect := range s.Lacks() {
		pb.b.warn("RUN is confined less than elsewhere: " + effect)
	}
	layers, err := pb.b.s.OverlayDirs(ctx, pb.ids(), s.UserXattr())
	if err != nil {
		return false, fmt.Errorf("stack the layers below the command: %w", err)
	}
	args, files := st.command()
	err = s.Run(sandbox.Command{
		Layers: layers, Args: args, Env: append(st.environment(pb), proxies()...), Files: append(files, st.secrets...),
	})
	return s.UserXattr(), interrupted(ctx, err)
}

var errInterrupted = errors.New("interrupted")

// interrupted returns errInterrupted with the reason if ctx ended, else err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	}
	return err
}

// mountPoints returns the paths that isolation=chroot makes in the rootfs for
// its mounts, inner ones first.
func (pb *platformBuild) mountPoints() ([]string, error) {
	if pb.b.o.Isolation != IsolationChroot {
		return nil, nil
	}
	root, err := pb.b.s.Rootfs(pb.ids())
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

// removeEmpty removes from upper the mount points that the command left empty.
// The command may have put symbolic links in their place: os.Root follows none
// out of upper.
func removeEmpty(upper *os.Root, mountPoints []string) {
	for _, name := range mountPoints {
		if fi, err := upper.Lstat(name); err == nil && (fi.IsDir() || fi.Mode().IsRegular() && fi.Size() == 0) {
			_ = upper.Remove(name) // fails for a directory with files, which is the command's
		}
	}
}
