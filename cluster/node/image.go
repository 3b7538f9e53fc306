package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/render"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

type imageKind struct{}

// withStore opens the machine's store for f.
func (m *Machine) withStore(f func(s *store.Store) error) (err error) {
	s, err := store.Open(m.Store, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(s)
}

func (imageKind) Check(ctx context.Context, w *Work, args json.RawMessage) (ok bool, err error) {
	var a plan.ImageArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	err = w.withStore(func(s *store.Store) error {
		im, err := s.Image(ctx, a.Name, nil)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		ok = err == nil && im.ManifestDescriptor.Digest == a.Descriptor.Digest
		return err
	})
	return ok, err
}

func (imageKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.ImageArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	name, err := ref.Parse(a.Name)
	if err != nil {
		return err
	}
	if err := w.change(journal.Change{What: journal.Image, Name: a.Name, Now: a.Descriptor.Digest.String()}); err != nil {
		return err
	}
	return w.withStore(func(s *store.Store) error {
		return s.Commit(ctx, []ref.Reference{name}, a.Descriptor)
	})
}

// Inputs are the values that change the files of an image for one machine.
type Inputs struct {
	Env     []string          `json:"env,omitempty"` // KEY=VALUE, secrets resolved
	Configs []spec.Config     `json:"configs,omitempty"`
	App     *spec.Application `json:"application,omitempty"`
}

type rootfsKind struct{}

func (rootfsKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.RootfsArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	current, err := os.Readlink(filepath.Join(w.Dir(), "rootfs", "current"))
	if !a.Aside && (err != nil || current != a.Generation) {
		return false, nil //nolint:nilerr // no link means no rootfs
	}
	info, err := os.Stat(w.rootfs(a.Generation, ""))
	return err == nil && info.IsDir(), nil
}

func (rootfsKind) Do(ctx context.Context, w *Work, args json.RawMessage) (err error) {
	var a plan.RootfsArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	base := filepath.Join(w.Dir(), "rootfs")
	final := filepath.Join(base, a.Generation)
	if _, err := os.Stat(final); errors.Is(err, fs.ErrNotExist) {
		if err := w.makeRootfs(ctx, a, base, final); err != nil {
			return fmt.Errorf("rootfs %s: %w", a.Generation, err)
		}
	}
	if a.Aside {
		return nil
	}
	tmp := filepath.Join(base, ".current")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.Symlink(a.Generation, tmp), os.Rename(tmp, filepath.Join(base, "current")))
}

// makeRootfs unpacks into a directory beside final and renames that.
func (w *Work) makeRootfs(ctx context.Context, a plan.RootfsArgs, base, final string) error {
	tmp := final + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return err
	}
	err := w.withStore(func(s *store.Store) error {
		im, err := s.Image(ctx, a.Image.Encoded(), nil)
		if err != nil {
			return err
		}
		r, err := s.Rootfs(im.LayerIDs())
		if err != nil {
			return err
		}
		return errors.Join(copyTree(ctx, r, tmp), r.Close())
	})
	if err != nil {
		return err
	}
	if err := w.renderRootfs(tmp); err != nil {
		return err
	}
	return errors.Join(os.Rename(tmp, final), syncDirectory(base))
}

// renderRootfs changes the files in dir as the secret "inputs" says.
func (w *Work) renderRootfs(dir string) (err error) {
	text, ok := w.Secrets[plan.SecretInputs]
	if !ok {
		return errors.New("the environment of this machine was not sent")
	}
	var in Inputs
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := render.Templates(root, render.NewEnv(in.Env)); err != nil {
		return err
	}
	if _, err := render.Configs(root, in.Configs); err != nil {
		return err
	}
	if in.App != nil {
		if _, err := render.Application(root, *in.App); err != nil {
			return err
		}
	}
	return nil
}

// tree is a merged rootfs.
type tree interface {
	fs.FS
	ReadLink(name string) (string, error)
}

// copyTree copies a rootfs to the directory to, without the registry's tree.
func copyTree(ctx context.Context, from tree, to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(from, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return errors.Join(err, ctx.Err())
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case p == "registry" && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return errors.Join(root.MkdirAll(p, 0o755), root.Chmod(p, info.Mode().Perm()|0o700))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := from.ReadLink(p)
			if err != nil {
				return err
			}
			return root.Symlink(target, p)
		case info.Mode().IsRegular():
			return copyRegular(from, root, p, info.Mode().Perm())
		}
		return fmt.Errorf("%s: it is neither a file, a directory nor a link", p)
	})
}

func copyRegular(from fs.FS, to *os.Root, name string, mode fs.FileMode) (err error) {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// missing returns the digests that the machine's store lacks.
func (m *Machine) missing(ctx context.Context, digests []string) (lack []string, err error) {
	err = m.withStore(func(s *store.Store) error {
		for _, d := range digests {
			has, err := s.HasBlob(ctx, digest.Digest(strings.TrimSpace(d)))
			if err != nil {
				return err
			}
			if !has {
				lack = append(lack, d)
			}
		}
		return nil
	})
	return lack, err
}
