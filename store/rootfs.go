package store

import (
	"errors"
	"io/fs"

	"github.com/opencontainers/go-digest"
)

// A Rootfs is the merged file tree of a chain of layers, read-only. It
// implements fs.FS, fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS and is safe for
// concurrent use. Symbolic links are followed inside the merged tree, never
// out of it: "/" is its root.
type Rootfs struct{}

// Rootfs opens the merged tree of the layers, lowest first. The caller closes
// it. The error wraps ErrNotFound when a layer is not unpacked here.
func (s *Store) Rootfs(ids []digest.Digest) (*Rootfs, error) { return nil, errors.ErrUnsupported }

// Open implements fs.FS.
func (r *Rootfs) Open(name string) (fs.File, error) { return nil, errors.ErrUnsupported }

// Stat implements fs.StatFS.
func (r *Rootfs) Stat(name string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// Lstat implements fs.ReadLinkFS.
func (r *Rootfs) Lstat(name string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// ReadLink implements fs.ReadLinkFS.
func (r *Rootfs) ReadLink(name string) (string, error) { return "", errors.ErrUnsupported }

// ReadDir implements fs.ReadDirFS.
func (r *Rootfs) ReadDir(name string) ([]fs.DirEntry, error) { return nil, errors.ErrUnsupported }

// Close frees the directories.
func (r *Rootfs) Close() error { return nil }
