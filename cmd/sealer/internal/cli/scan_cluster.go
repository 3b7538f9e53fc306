package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// findRunning scans the cluster that a kubeconfig file names.
func (f *scanFlags) findRunning(ctx context.Context) (*imagelist.Result, error) {
	c, err := kube.ReadConfigs(kubeconfigs(f.kubeconfig), f.context)
	if err != nil {
		return nil, advise(err, "Name the file with --kubeconfig FILE, and one of its contexts with --context NAME")
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
		return nil, advise(fmt.Errorf("scan %s: %w", c.Server, err), "The API server must answer, and take the certificate or the token of the kubeconfig file; --context NAME takes another of its contexts")
	}
	return found, err
}

// kubeconfigs finds the files as kubectl does.
func kubeconfigs(flag string) []string {
	if flag != "" {
		return []string{flag}
	}
	list := slices.DeleteFunc(filepath.SplitList(os.Getenv("KUBECONFIG")), func(name string) bool { return name == "" })
	if len(list) > 0 {
		return list
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return []string{"config"}
	}
	return []string{filepath.Join(home, ".kube", "config")}
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
		printf(a.Err, "%s inside %s\n", counted(len(found.Mirror(f.options.IncludeOptional)), "image found, and it is", "images found, all"), f.compare)
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
