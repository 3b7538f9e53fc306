package archive

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// openLayout returns the tar of a directory that is an OCI image layout: the files
// that the specification names, index.json before the blobs.
func openLayout(dir string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := errors.Join(writeLayout(tw, root), root.Close())
		if err == nil {
			err = tw.Close()
		}
		w.CloseWithError(err)
	}()
	return r, nil
}

func writeLayout(tw *tar.Writer, root *os.Root) error {
	names := []string{ocispec.ImageLayoutFile, ocispec.ImageIndexFile}
	const blobs = ocispec.ImageBlobsDir + "/sha256"
	list, err := fs.ReadDir(root.FS(), blobs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		names = append(names, path.Join(blobs, e.Name()))
	}
	for _, name := range names {
		if err := writeEntry(tw, root, name); err != nil {
			return err
		}
	}
	return nil
}

func writeEntry(tw *tar.Writer, root *os.Root, name string) (err error) {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: fi.Size(), Mode: 0o644}); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}
