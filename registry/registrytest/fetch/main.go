// Command fetch reads an image from a registry over plain HTTP, with nothing
// but the standard library and the specification, and checks every byte
// against its digest. Demos and scripts use it as a witness that shares no
// code with sealer's own client.
//
//	fetch [-platform linux/amd64] http://127.0.0.1:5000 library/nginx:latest
//
// It prints one line a blob and ends with the digest of the image.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

const maxManifest = 4 << 20 // bytes; the limit of the distribution specification

var accept = []string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.docker.distribution.manifest.v2+json",
}

func main() {
	platform := flag.String("platform", "linux/amd64", "os/arch to follow in an index")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: fetch [-platform OS/ARCH] URL REPOSITORY:TAG|REPOSITORY@DIGEST")
		os.Exit(2)
	}
	if err := fetch(os.Stdout, strings.TrimSuffix(flag.Arg(0), "/"), flag.Arg(1), *platform); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

type manifest struct {
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"`
}

func fetch(w io.Writer, url, image, platform string) error {
	repository, reference, found := strings.Cut(image, "@")
	if !found {
		i := strings.LastIndex(image, ":")
		if i < 0 {
			return fmt.Errorf("%s: want REPOSITORY:TAG or REPOSITORY@DIGEST", image)
		}
		repository, reference = image[:i], image[i+1:]
	}
	root, m, err := readManifest(url, repository, reference)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s  %d bytes, manifest of %s\n", root, m.size, image)
	if len(m.Manifests) > 0 {
		for _, d := range m.Manifests {
			if d.Platform.OS+"/"+d.Platform.Architecture != platform {
				continue
			}
			if _, m, err = readManifest(url, repository, d.Digest); err != nil {
				return err
			}
			fmt.Fprintf(w, "%s  %d bytes, manifest for %s\n", d.Digest, m.size, platform)
			break
		}
	}
	if len(m.Layers) == 0 {
		return fmt.Errorf("%s: no manifest with layers for %s", image, platform)
	}
	for _, d := range append([]descriptor{m.Config}, m.Layers...) {
		if err := readBlob(url, repository, d); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s  %d bytes, every byte checked\n", d.Digest, d.Size)
	}
	fmt.Fprintf(w, "image %s\n", root)
	return nil
}

type sized struct {
	manifest
	size int
}

func readManifest(url, repository, reference string) (string, sized, error) {
	var m sized
	body, err := get(url+"/v2/"+repository+"/manifests/"+reference, accept)
	if err != nil {
		return "", m, err
	}
	b, err := io.ReadAll(io.LimitReader(body, maxManifest))
	if err = errors.Join(err, body.Close()); err != nil {
		return "", m, err
	}
	sum := sha256.Sum256(b)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if strings.Contains(reference, ":") && reference != digest {
		return "", m, fmt.Errorf("manifest %s has the digest %s", reference, digest)
	}
	m.size = len(b)
	return digest, m, json.Unmarshal(b, &m.manifest)
}

func readBlob(url, repository string, d descriptor) error {
	body, err := get(url+"/v2/"+repository+"/blobs/"+d.Digest, nil)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(h, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != d.Digest || n != d.Size {
		return fmt.Errorf("blob %s of %d bytes came as %s of %d bytes", d.Digest, d.Size, got, n)
	}
	return nil
}

func get(url string, accept []string) (io.ReadCloser, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for _, a := range accept {
		req.Header.Add("Accept", a)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("GET %s: %s", url, resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}
