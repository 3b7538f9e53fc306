package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// findRunning scans the cluster that a kubeconfig file names.
func (f *scanFlags) findRunning(ctx context.Context) (*imagelist.Result, error) {
	c, err := kube.ReadConfig(kubeconfig(f.kubeconfig))
	if err != nil {
		return nil, advise(err, "Name the file with --kubeconfig FILE")
	}
	client, err := kube.New(c)
	if err != nil {
		return nil, err
	}
	lists, err := build.Lists(f.options)
	if err != nil {
		return nil, err
	}
	lists.PrivateRegistry = f.options.PrivateRegistry
	found, err := imagelist.ScanCluster(ctx, client, f.namespace, lists)
	if err != nil && found == nil {
		return nil, fmt.Errorf("scan %s: %w", c.Server, err)
	}
	return found, err
}

// kubeconfig finds the file as kubectl does, but of a list in KUBECONFIG only
// the first.
func kubeconfig(flag string) string {
	if flag != "" {
		return flag
	}
	if list := filepath.SplitList(os.Getenv("KUBECONFIG")); len(list) > 0 {
		return list[0]
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "config"
	}
	return filepath.Join(home, ".kube", "config")
}

// findInput scans the objects on standard input.
func (a *app) findInput(ctx context.Context, f *scanFlags) (_ *imagelist.Result, err error) {
	dir, err := os.MkdirTemp("", "sealer-scan-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := filepath.Join(dir, "stdin.yaml")
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(file, io.LimitReader(a.In, 1<<30)); err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return a.findFiles(ctx, f, name)
}

// printCompared prints the images that a ClusterImage has not inside.
func (a *app) printCompared(ctx context.Context, f *scanFlags, found *imagelist.Result) error {
	var inside []image.MirroredImage
	err := a.withStore(func(s *store.Store) error {
		im, err := s.Image(ctx, f.compare, nil)
		if err != nil {
			return notFound(err)
		}
		inside = im.Config.Images
		return nil
	})
	if err != nil {
		return err
	}
	v := newScanResult(found, f.options.IncludeOptional, false)
	v.Images = nil
	for _, im := range found.Mirror(f.options.IncludeOptional) {
		if !holds(inside, im.Reference) {
			v.Images = append(v.Images, newScanned(im, false))
		}
	}
	if err := f.output.print(a.Out, v, func(w io.Writer) error { return printFound(w, v, f.output.kind == "wide") }, anys(v.Images)...); err != nil {
		return err
	}
	if len(v.Images) == 0 {
		return nil
	}
	return incompleteError{fmt.Errorf("%s not inside %s", counted(len(v.Images), "image is", "images are"), f.compare)}
}

// holds reports whether an image is inside: by its digest, or by its name and
// tag. A cluster that was redirected names images in the private registry, so
// that the registry's name does not count.
func holds(inside []image.MirroredImage, want ref.Reference) bool {
	for _, m := range inside {
		if m.Missing != "" {
			continue
		}
		switch {
		case want.Digest != "" && want.Digest == m.Digest:
			return true
		case want.Tag != "" && m.Reference.Tag == want.Tag && m.Reference.Repository == want.Repository:
			return true
		}
	}
	return false
}
