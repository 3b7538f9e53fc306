package sbom

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/tree"
)

const (
	maxChartFile    = 1 << 20   // bytes of a Chart.yaml
	maxChartArchive = 100 << 20 // bytes that are unpacked in search of a Chart.yaml
	chartFile       = "Chart.yaml"
)

// files adds the regular files of the rootfs and the charts among them. Links have
// no content of their own and are left out.
func (i *Inventory) files(ctx context.Context, root fs.FS) error {
	buffer := make([]byte, 256<<10)
	var dirs []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case name == tree.Root && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		f, err := hashFile(root, name, buffer)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		i.Files = append(i.Files, f)
		if path.Base(name) == chartFile {
			dirs = append(dirs, path.Dir(name))
		}
		if strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".tar.gz") {
			i.archive(root, f)
		}
		return nil
	})
	slices.SortFunc(i.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, dir := range dirs {
		i.directory(root, dir)
	}
	slices.SortFunc(i.Charts, func(a, b Chart) int { return cmp.Compare(a.Path, b.Path) })
	return err
}

func hashFile(root fs.FS, name string, buffer []byte) (_ File, err error) {
	f, err := root.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	one, two := sha1.New(), sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(one, two), onlyReader{f}, buffer); err != nil {
		return File{}, err
	}
	return File{Path: name, SHA1: hex.EncodeToString(one.Sum(nil)), SHA256: hex.EncodeToString(two.Sum(nil))}, nil
}

// An onlyReader hides the file's WriteTo, which takes a buffer for each file.
type onlyReader struct{ io.Reader }

// directory adds the chart in dir.
func (i *Inventory) directory(root fs.FS, dir string) {
	f, err := root.Open(path.Join(dir, chartFile))
	if err != nil {
		i.Unread = append(i.Unread, fmt.Errorf("chart %s: %w", dir, err))
		return
	}
	defer f.Close()
	h := sha256.New()
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	first, _ := slices.BinarySearchFunc(i.Files, prefix, func(f File, p string) int { return cmp.Compare(f.Path, p) })
	for _, file := range i.Files[first:] {
		inside, ok := strings.CutPrefix(file.Path, prefix)
		if !ok {
			break
		}
		fmt.Fprintf(h, "%s  %s\n", file.SHA256, inside)
	}
	i.chart(f, Chart{Path: dir, SHA256: hex.EncodeToString(h.Sum(nil))})
}

// archive adds the chart in the archive f, if it is one.
func (i *Inventory) archive(root fs.FS, f File) {
	file, err := root.Open(f.Path)
	if err != nil {
		i.Unread = append(i.Unread, fmt.Errorf("chart %s: %w", f.Path, err))
		return
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return // not an archive: it stands among the files
	}
	t := tar.NewReader(io.LimitReader(z, maxChartArchive))
	for {
		h, err := t.Next()
		if err != nil {
			return // the end, or an archive of something else
		}
		name := path.Clean(h.Name)
		if h.Typeflag == tar.TypeReg && path.Base(name) == chartFile && strings.Count(name, "/") == 1 {
			i.chart(t, Chart{Path: f.Path, SHA256: f.SHA256})
			return
		}
	}
}

// chart reads a Chart.yaml and adds c with its name.
func (i *Inventory) chart(r io.Reader, c Chart) {
	b, err := io.ReadAll(io.LimitReader(r, maxChartFile))
	var meta struct {
		Name        string            `yaml:"name"`
		Version     string            `yaml:"version"`
		Annotations map[string]string `yaml:"annotations"`
	}
	if err == nil {
		err = yaml.Unmarshal(b, &meta)
	}
	if err == nil && meta.Name == "" {
		err = errors.New("its Chart.yaml has no name")
	}
	if err != nil {
		i.Unread = append(i.Unread, fmt.Errorf("chart %s: %w", c.Path, err))
		return
	}
	c.Name, c.Version, c.License = meta.Name, meta.Version, meta.Annotations["artifacthub.io/license"]
	i.Charts = append(i.Charts, c)
}
