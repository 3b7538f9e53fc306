package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/rootfs"
)

// MountOptions are the options of Mount.
type MountOptions struct {
	// Dir is where the image appears; it is made when it does not exist. "" is
	// a directory of the store.
	Dir string
	// Platform chooses one of an image for several; nil as in Image.
	Platform *ocispec.Platform
	// ReadWrite lets the files be changed. The image stays as it is.
	ReadWrite bool
	// Changes is the directory that keeps the changes of a ReadWrite mount, in
	// its directory "upper" and in the form of overlayfs; a later mount with it
	// goes on from them. "" is a directory that goes with the mount.
	Changes string
}

// A Mounted is an image that Mount mounted.
type Mounted struct {
	Dir    string          `json:"dir"` // absolute
	Image  string          `json:"image"`
	ID     string          `json:"id"`
	Layers []digest.Digest `json:"layers"`
	Made   bool            `json:"made"` // Dir was made for it

	ReadWrite bool   `json:"readWrite,omitempty"`
	Changes   string `json:"changes,omitempty"` // the directory that keeps the changes, absolute; "" drops them
}

// Mount mounts the rootfs of an image with overlayfs, which only root may: for
// others the error wraps fs.ErrPermission. The image's layers are kept from prune
// until Unmount, or until the machine is restarted.
func (s *Store) Mount(ctx context.Context, nameOrID string, o MountOptions) (_ *Mounted, err error) {
	if err := rootfs.Supported(); err != nil {
		return nil, fmt.Errorf("mount %s: %w", nameOrID, err)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("mount %s: %w: only root may mount overlayfs", nameOrID, fs.ErrPermission)
	}
	if err := s.Hold(ctx); err != nil {
		return nil, err
	}
	img, err := s.Image(ctx, nameOrID, o.Platform)
	if err != nil {
		return nil, err
	}
	m := &Mounted{Dir: o.Dir, Image: nameOrID, ID: img.ID, Layers: img.LayerIDs(), ReadWrite: o.ReadWrite, Changes: o.Changes}
	if m.Dir == "" {
		m.Dir = s.path("mounts", img.ManifestDescriptor.Digest.Encoded()[:12])
	}
	if m.Dir, err = filepath.Abs(m.Dir); err != nil {
		return nil, fmt.Errorf("mount %s: %w", nameOrID, err)
	}
	if m.Changes != "" {
		if m.Changes, err = filepath.Abs(m.Changes); err != nil {
			return nil, fmt.Errorf("mount %s: %w", nameOrID, err)
		}
	}
	if err := s.mount(ctx, m); err != nil {
		return nil, fmt.Errorf("mount %s: %w", nameOrID, err)
	}
	return m, nil
}

func (s *Store) mount(ctx context.Context, m *Mounted) (err error) {
	userxattr := rootfs.UserXattr()
	dirs, err := s.OverlayDirs(ctx, m.Layers, userxattr)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.path("mounts"), 0o755); err != nil {
		return err
	}
	if on, err := rootfs.Mounted(m.Dir); err == nil && on {
		return fmt.Errorf("%s: something is mounted there", m.Dir)
	} else if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(m.Dir, 0o755); err != nil {
			return err
		}
		m.Made = true
	} else if err != nil {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// The record comes first: a mount without one could lose its layers.
	if err := s.replaceFile(ctx, s.mountRecord(m.Dir), b); err != nil {
		return err
	}
	o := rootfs.Overlay{Lower: dirs, Spare: s.path("mounts", "empty"), UserXattr: userxattr}
	if m.ReadWrite {
		err = layer.Remove(s.scratch(m)) // of a mount that ended with the machine
		if err == nil {
			err = writable(&o, cmp.Or(m.Changes, s.scratch(m)))
		}
	}
	if err == nil {
		err = o.Mount(m.Dir)
	}
	if err != nil {
		return errors.Join(err, s.forget(m))
	}
	return nil
}

// scratch is the directory of the changes that end with the mount.
func (s *Store) scratch(m *Mounted) string {
	return s.path("mounts", digest.FromString(m.Dir).Encoded()+".changes")
}

// writable makes the directories of the changes in dir.
func writable(o *rootfs.Overlay, dir string) error {
	o.Upper, o.Work = filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{o.Upper, o.Work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) mountRecord(dir string) string {
	return s.path("mounts", digest.FromString(dir).Encoded()+".json")
}

// forget removes the record of m, and its directory when it was made.
func (s *Store) forget(m *Mounted) error {
	err := errors.Join(os.Remove(s.mountRecord(m.Dir)), layer.Remove(s.scratch(m)))
	if m.Made {
		err = errors.Join(err, os.Remove(m.Dir)) // never more than an empty directory
	}
	return err
}

// Mounts returns the mounts of this store.
func (s *Store) Mounts() ([]Mounted, error) {
	entries, err := os.ReadDir(s.path("mounts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	var out []Mounted
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		b, err := os.ReadFile(s.path("mounts", e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var m Mounted
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil {
			return nil, fmt.Errorf("mounts: %w", err)
		}
		if on, err := rootfs.Mounted(m.Dir); err == nil && on {
			out = append(out, m)
		}
	}
	return out, nil
}

// Unmount ends mounts that Mount made: by its directory, or all mounts of an
// image by its name or ID. The error wraps ErrNotFound when there is none.
func (s *Store) Unmount(ctx context.Context, target string) ([]Mounted, error) {
	all, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(target)
	if err != nil {
		return nil, fmt.Errorf("unmount %s: %w", target, err)
	}
	id := target
	if img, err := s.Image(ctx, target, nil); err == nil {
		id = img.ID
	}
	var out []Mounted
	var errs []error
	for _, m := range all {
		if m.Dir != dir && m.ID != id && (len(target) < 12 || !strings.HasPrefix(m.ID, target)) {
			continue
		}
		err := rootfs.Unmount(m.Dir)
		if err == nil {
			err = s.forget(&m)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", target, err))
			continue
		}
		out = append(out, m)
	}
	if len(out)+len(errs) == 0 {
		return nil, fmt.Errorf("unmount %s: no mount of it: %w", target, ErrNotFound)
	}
	return out, errors.Join(errs...)
}
