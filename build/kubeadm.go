package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/platform"
)

// maxKubeadm bounds how long kubeadm may think about a list of seven images.
const maxKubeadm = time.Minute

// kubeadm asks the kubeadm of the rootfs, in a sandbox without a network, which
// images it pulls for the configuration at a path of the rootfs, or for none: then
// only a kubeadm that this Kubefile brings is asked. The error is
// imagelist.ErrNoKubeadm where the rootfs has none that runs on this machine.
func (pb *platformBuild) kubeadm(ctx context.Context, config string) (images []string, err error) {
	layers := pb.ids()
	if config == "" {
		layers = pb.added
	}
	program, ok := pb.program("kubeadm", layers)
	if !ok || platform.String(pb.platform) != platform.String(platform.Default()) {
		return nil, imagelist.ErrNoKubeadm
	}
	program = path.Join(sandbox.Root, program)
	which := []string{"--config", path.Join(sandbox.Root, config)}
	if config == "" {
		version, err := pb.ask(ctx, program, "version", "-o", "short")
		if err != nil {
			return nil, err
		}
		which = []string{"--kubernetes-version", strings.TrimSpace(version)}
	}
	out, err := pb.ask(ctx, append([]string{program, "config", "images", "list"}, which...)...)
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(out) {
		if l = strings.TrimSpace(l); l != "" && !strings.ContainsAny(l, " \t") { // warnings are sentences
			images = append(images, l)
		}
	}
	return images, nil
}

// ask runs a program of the rootfs in a sandbox without a network and returns its
// output.
func (pb *platformBuild) ask(ctx context.Context, args ...string) (_ string, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxKubeadm)
	defer cancel()
	dir, remove, err := pb.b.s.TempDir(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var out bytes.Buffer
	s, err := sandbox.Start(ctx, sandbox.Options{Dir: dir, NoNetwork: true, Output: &out, Hide: []string{pb.b.s.Root()}})
	if err != nil {
		return "", err
	}
	defer s.Close()
	layers, err := pb.b.s.OverlayDirs(ctx, pb.ids(), s.UserXattr())
	if err != nil {
		return "", err
	}
	err = s.Run(sandbox.Command{
		Layers: layers,
		Args:   args,
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"},
	})
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLine(out.String()))
	}
	return out.String(), nil
}

// program finds a program of the layers by the directories that one may lie in. A
// text that stands for it, as in an example, is none.
func (pb *platformBuild) program(name string, layers []digest.Digest) (string, bool) {
	root, err := pb.b.s.Rootfs(layers)
	if err != nil {
		return "", false
	}
	defer root.Close()
	for _, dir := range []string{"bin", "usr/bin", "usr/local/bin"} {
		at := path.Join(dir, name)
		fi, err := fs.Stat(root, at)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		f, err := root.Open(at)
		if err != nil {
			continue
		}
		head := make([]byte, 4)
		_, err = io.ReadFull(f, head)
		_ = f.Close()
		if err == nil && (string(head) == "\x7fELF" || strings.HasPrefix(string(head), "#!")) {
			return at, true
		}
	}
	return "", false
}

// lastLine is the end of a program's output, for an error, without the advice that
// kubeadm ends with.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if n := len(lines) - 1; n > 0 && strings.HasPrefix(lines[n], "To see the stack trace") {
		lines = lines[:n]
	}
	return lines[len(lines)-1]
}
