package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// compress returns b as gzip writes it without a name and a time.
func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	return out.Bytes(), w.Close()
}

// archive writes sealer_VERSION_SYSTEM_ARCH.tar.gz, for Windows .zip, with a
// directory of that name inside.
func (r *release) archive(p platform, path string, licences []file) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("sealer_%s_%s_%s", r.version, p.system(), p.arch())
	files := append([]file{{name: program(p), mode: 0o755, data: b}, {name: "COMMIT", mode: 0o644, data: []byte(r.revision + "\n")}}, r.common...)
	for _, l := range licences {
		l.name = "licences/" + l.name
		files = append(files, l)
	}
	write, suffix := r.tar, ".tar.gz"
	if p.system() == "windows" {
		write, suffix = r.zip, ".zip"
	}
	out, err := os.Create(filepath.Join(r.out, name+suffix))
	if err != nil {
		return err
	}
	return errors.Join(write(out, name, files), out.Close())
}

func (r *release) tar(w io.Writer, dir string, files []file) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{
			Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: r.time,
			Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if len(h.Name) > 99 {
			h.Format = tar.FormatPAX
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (r *release) zip(w io.Writer, dir string, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(f.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
