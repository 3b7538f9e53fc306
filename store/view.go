package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/rootfs"
)

// A View is an image's rootfs for a mount namespace of its own.
type View struct {
	Overlay rootfs.Overlay
	Dir     string // absolute, where the rootfs appears
	ID      string // the image's

	temp *lockedDir // the changes of a view that drops them; nil is none
	made bool       // Dir was made for it
}

// View prepares a mount in a mount namespace of its own, which an ordinary user
// may make together with a user namespace: user is true then. The image's layers
// are kept from prune as long as the Store is open. The caller closes the View
// when the mount has ended.
func (s *Store) View(ctx context.Context, nameOrID string, o MountOptions, user bool) (_ *View, err error) {
	fail := func(err error) (*View, error) { return nil, fmt.Errorf("mount %s: %w", nameOrID, err) }
	if err := rootfs.Supported(); err != nil {
		return fail(err)
	}
	if err := s.Hold(ctx); err != nil {
		return nil, err
	}
	img, err := s.Image(ctx, nameOrID, o.Platform)
	if err != nil {
		return nil, err
	}
	userxattr := user || rootfs.UserXattr()
	dirs, err := s.OverlayDirs(ctx, img.LayerIDs(), userxattr)
	if err != nil {
		return fail(err)
	}
	v := &View{ID: img.ID, Dir: o.Dir, Overlay: rootfs.Overlay{Lower: dirs, Spare: s.path("mounts", "empty"), UserXattr: userxattr}}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close())
		}
	}()
	if v.Dir == "" {
		v.Dir = s.path("mounts", "private") // each namespace has its own mount there
	}
	if v.Dir, err = filepath.Abs(v.Dir); err != nil {
		return fail(err)
	}
	if _, err := os.Stat(v.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(v.Dir, 0o755); err != nil {
			return fail(err)
		}
		v.made = o.Dir != ""
	}
	if !o.ReadWrite {
		return v, nil
	}
	changes := o.Changes
	if changes == "" {
		if v.temp, err = s.tempDir("view"); err != nil {
			return fail(err)
		}
		changes = v.temp.Name()
	}
	if changes, err = filepath.Abs(changes); err != nil {
		return fail(err)
	}
	if err := writable(&v.Overlay, changes); err != nil {
		return fail(err)
	}
	return v, nil
}

// Close drops the changes that nobody keeps, and the directory that was made.
func (v *View) Close() error {
	var err error
	if v.temp != nil {
		err = discard(v.temp)
	}
	if v.made {
		err = errors.Join(err, os.Remove(v.Dir)) // never more than an empty directory
	}
	return err
}
