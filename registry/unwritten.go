package registry

import (
	"bytes"
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/tree"
)

// A Layer is a layer that may hold a registry tree: in a directory, or, where Dir
// is "", in a document and its blobs.
type Layer struct {
	// Dir is the directory of the layer, which has the tree in tree.Root, or no
	// tree.
	Dir string
	// Document describes a tree that was not written.
	Document *tree.Document
	// Blob returns the path of a blob of Document's, whether it exists or not.
	Blob func(digest.Digest) string
}

// Dirs returns the layers in directories.
func Dirs(dirs ...string) []Layer {
	var out []Layer
	for _, d := range dirs {
		out = append(out, Layer{Dir: d})
	}
	return out
}

// A root is the registry tree of one layer. The errors of its methods wrap
// fs.ErrNotExist where it lacks a path.
type root interface {
	stat(path string) (fileInfo, error)
	names(path string) ([]string, error)
	open(path string) (io.ReadSeekCloser, error) // an *os.File where there is a file
	close() error
}

// open opens the registry tree of l, nil where it has none.
func (l Layer) open() (root, error) {
	if l.Dir == "" {
		return unwritten{tree.NewView(l.Document), l.Blob}, nil
	}
	return openTree(l.Dir)
}

// whole reports whether s is a registry tree and still exists.
func whole(s root) bool {
	info, err := s.stat(tree.RepositoryPath(""))
	return err == nil && info.dir
}

// unwritten is a registry tree that only its document describes.
type unwritten struct {
	view *tree.View
	blob func(digest.Digest) string
}

func (u unwritten) node(op, path string) (tree.Node, error) {
	n, ok := u.view.Node(path)
	if !ok {
		return n, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return n, nil
}

func (u unwritten) stat(path string) (fileInfo, error) {
	n, err := u.node("stat", path)
	if err != nil || n.Blob == "" {
		return fileInfo{size: int64(len(n.Link)), dir: n.IsDir()}, err
	}
	fi, err := os.Stat(u.blob(n.Blob))
	if err != nil {
		return fileInfo{}, err
	}
	return fileInfo{size: fi.Size(), modified: fi.ModTime()}, nil
}

func (u unwritten) names(path string) ([]string, error) {
	n, err := u.node("readdir", path)
	return n.Names, err
}

func (u unwritten) open(path string) (io.ReadSeekCloser, error) {
	n, err := u.node("open", path)
	switch {
	case err != nil:
		return nil, err
	case n.Blob != "":
		return os.Open(u.blob(n.Blob))
	case n.Link != "":
		return linkFile{bytes.NewReader([]byte(n.Link))}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid} // a directory
}

func (u unwritten) close() error { return nil }

// linkFile is a link file that was not written.
type linkFile struct{ *bytes.Reader }

func (linkFile) Close() error { return nil }
