package imagelist

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
)

// read returns a file's content, at most limit bytes; a larger file is a
// fault.
func (s *scanner) read(name string, limit int64) ([]byte, bool) {
	data, err := readLimited(s.fsys, name, limit)
	if err != nil {
		s.fault(fault{file: name, err: err})
		return nil, false
	}
	s.res.Files++
	s.log.Debug("read", "file", name, "bytes", len(data))
	return data, true
}

func readLimited(fsys fs.FS, name string, limit int64) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%d bytes, at most %d are read", info.Size(), limit)
	}
	buf := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // it grows only if the file does
	_, err = buf.ReadFrom(io.LimitReader(f, limit+1))
	data = buf.Bytes()
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than the %d bytes that are read", limit)
	}
	return data, err
}

// MetadataVersion returns the Kubernetes version that a base rootfs says it
// brings, in its file Metadata, "" when there is none.
func MetadataVersion(fsys fs.FS) string {
	data, err := readLimited(fsys, "Metadata", 1<<20)
	if err != nil {
		return ""
	}
	n, err := parseYAML(data) // JSON is YAML
	if err != nil || check(n) != nil {
		return ""
	}
	return text(n, "version")
}

// chartFile makes a directory a chart.
const chartFile = "Chart.yaml"

// Telling reports whether Scan looks at a file outside the directories that are
// made for manifests for its name alone: it makes its directory a chart, is a
// kustomization, or may name an image that a machine pulls by itself.
func Telling(name string) bool {
	return path.Base(name) == chartFile || kustomizationFile(name) || nodeFile(name) || isUnit(name)
}

// HasObjects reports whether f holds objects that Scan would look at in a file outside
// the directories that are made for manifests. It reads through buf, of 4 KiB or
// more.
func HasObjects(f io.ReadSeeker, buf []byte) (bool, error) {
	if !mayHavePods(f, buf) {
		return false, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxOther))
	return len(objects(data)) > 0, err
}

// objects returns the documents of data that are Kubernetes objects.
func objects(data []byte) []document {
	docs, _ := documents(blankActions(data))
	return slices.DeleteFunc(docs, func(d document) bool { return text(d.node, "apiVersion") == "" || text(d.node, "kind") == "" })
}

// mayHavePods reports whether r is text that may hold Kubernetes objects with a
// pod spec, or others that Scan must know of, in its first 32 MiB; a longer file
// holds none that Scan would read. It reads through buf, of 4 KiB or more, so
// that a rootfs full of binaries costs little, and objects of other kinds, such
// as large ConfigMaps, are not parsed. A long text that is an io.Seeker is
// searched for one word first, and from its beginning once that is found.
func mayHavePods(r io.Reader, buf []byte) bool {
	found := make([]bool, len(podWords))
	search := podWords
	again, seeks := r.(io.Seeker)
	if seeks {
		search = podWords[:1]
	}
	kept, total := 0, 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		all, ended := buf[:kept+n], errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if bytes.IndexByte(all[kept:], 0) >= 0 {
			return false
		}
		if total == 0 && ended {
			search = podWords // that is all of it, as of most files
		}
		if found[0] = found[0] || holdsAPIVersion(all); ended && !found[0] {
			return false
		}
		for i, w := range search[1:] {
			found[i+1] = found[i+1] || bytes.Contains(all, w)
		}
		if total += n; total > maxOther {
			return false
		}
		if len(search) == 1 && found[0] {
			if _, err := again.Seek(0, io.SeekStart); err != nil {
				return false
			}
			search, kept, total = podWords, 0, 0
			continue
		}
		if ended {
			return found[1] && (found[2] && found[3] || slices.Contains(found[4:], true))
		}
		if err != nil {
			return false
		}
		kept = copy(buf, all[len(all)-longestPodWord:]) // a word may lie across
	}
}

// holdsAPIVersion is bytes.Contains of podWords[0], made for text that lacks it:
// a capital letter is rarer there than an "a", so the search stops less often.
func holdsAPIVersion(b []byte) bool {
	const head, tail = "api", "Version"
	for at := 0; ; at += len(tail) {
		i := bytes.Index(b[at:], []byte(tail))
		if i < 0 {
			return false
		}
		if at += i; bytes.HasSuffix(b[:at], []byte(head)) {
			return true
		}
	}
}

// podWords are in every object, in every pod spec (initContainers too), and in
// objects that others depend on: the CRDs, and the objects of
// the families of operators.
var podWords = func() [][]byte {
	words := [][]byte{[]byte("apiVersion"), []byte("kind"), []byte("ontainers"), []byte("image"), []byte("CustomResourceDefinition"), []byte("kubeadm.k8s.io")}
	for _, f := range families {
		words = append(words, []byte(f.kind))
	}
	return words
}()

var longestPodWord = len(slices.MaxFunc(podWords, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) }))

// mayHavePods is mayHavePods of a file. One that cannot be opened may.
func (s *scanner) mayHavePods(name string) bool {
	f, err := s.fsys.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	return mayHavePods(f, s.buf)
}
