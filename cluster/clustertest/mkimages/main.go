// Command mkimages makes container images of programs, and leaves them in a
// directory that "upstream -dir" serves:
//
//	mkimages DIR < LIST
//
// Each line of LIST is an image, its user, its layers, and "--" with the command:
//
//	NAME:TAG [user=ID] PATH... -- ARG...
//
// A PATH is a directory whose content is one layer; images that name the same
// directory share the layer. Symbolic links in it stay links, files are
// executable, and empty directories are left out.
package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkimages DIR < LIST")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "mkimages:", err)
		os.Exit(1)
	}
}

func run(dir string, list io.Reader) (err error) {
	images, err := read(list)
	if err != nil {
		return err
	}
	up, err := registrytest.Start(registrytest.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() {
		if e := up.Close(); err == nil {
			err = e
		}
	}()
	for _, img := range images {
		if _, err := up.Add(img); err != nil {
			return err
		}
		if err := ask(up, img.Name); err != nil {
			return err
		}
		fmt.Println(img.Name)
	}
	return nil
}

// ask fetches the manifest by both names of the image: an upstream stores a
// manifest that it was given only when somebody asks for it.
func ask(up *registrytest.Upstream, name string) error {
	r := up.Ref(name)
	for _, repository := range []string{r.Repository, strings.SplitN(name, ":", 2)[0]} {
		u := up.URL() + "/v2/" + repository + "/manifests/" + r.Tag
		q, err := http.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			return err
		}
		q.Header.Set("Accept", ocispec.MediaTypeImageManifest)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		if err := a.Body.Close(); err != nil {
			return err
		}
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("image %s: get %s: %s", name, u, a.Status)
		}
	}
	return nil
}

// read makes the images of a list.
func read(list io.Reader) ([]registrytest.Image, error) {
	layers := map[string]registrytest.Layer{}
	var out []registrytest.Image
	for s := bufio.NewScanner(list); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) == 0 {
			continue
		}
		end := slices.Index(words, "--")
		if end < 0 {
			return nil, fmt.Errorf("image %s: no -- before its command", words[0])
		}
		img := registrytest.Image{Name: words[0], Config: &ocispec.ImageConfig{
			Env:        []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: words[end+1:],
			Labels:     map[string]string{"org.opencontainers.image.title": words[0]}, // equal programs, own digests
		}}
		for _, path := range words[1:end] {
			if user, ok := strings.CutPrefix(path, "user="); ok {
				img.Config.User = user
				continue
			}
			l, ok := layers[path]
			if !ok {
				var err error
				if l, err = layer(path); err != nil {
					return nil, fmt.Errorf("image %s: %w", words[0], err)
				}
				layers[path] = l
			}
			img.Layers = append(img.Layers, l)
		}
		out = append(out, img)
	}
	return out, nil
}

// layer reads a directory.
func layer(dir string) (registrytest.Layer, error) {
	l := registrytest.Layer{Name: filepath.Base(dir), Files: map[string]string{}, Links: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			l.Links[name], err = os.Readlink(path)
			return err
		}
		b, err := os.ReadFile(path)
		l.Files[name] = string(b)
		return err
	})
	return l, err
}
