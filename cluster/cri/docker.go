package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
)

// docker says whether the socket is Docker's own.
func (r Runtime) docker() bool { return path.Base(r.Socket) == "docker.sock" }

// dockerImages lists Docker's images (Docker Engine API, ImageList).
func (r Runtime) dockerImages(ctx context.Context) ([]Image, error) {
	var list []struct {
		ID      string   `json:"Id"`
		Tags    []string `json:"RepoTags"`
		Digests []string `json:"RepoDigests"`
	}
	if err := r.get(ctx, "/images/json", &list); err != nil {
		return nil, err
	}
	out := make([]Image, len(list))
	for i, l := range list {
		out[i] = Image{l.ID, l.Tags, l.Digests}
	}
	return out, nil
}

// dockerContainers lists Docker's containers (Docker Engine API, ContainerList).
func (r Runtime) dockerContainers(ctx context.Context) ([]Container, error) {
	var list []struct {
		ID     string            `json:"Id"`
		Names  []string          `json:"Names"`
		Image  string            `json:"ImageID"`
		Labels map[string]string `json:"Labels"`
	}
	if err := r.get(ctx, "/containers/json?all=1", &list); err != nil {
		return nil, err
	}
	out := make([]Container, len(list))
	for i, l := range list {
		out[i] = Container{ID: l.ID, Image: l.Image}
		for k, v := range l.Labels {
			out[i].label(k, v)
		}
		if out[i].Name == "" && len(l.Names) > 0 {
			out[i].Name = strings.TrimPrefix(l.Names[0], "/")
		}
	}
	return out, nil
}

func (r Runtime) dockerClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
		},
		DisableKeepAlives: true, DisableCompression: true,
	}}
}

func (r Runtime) get(ctx context.Context, url string, out any) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("container runtime %s: %s: %w", r.Socket, url, err)
		}
	}()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+url, nil)
	if err != nil {
		return err
	}
	a, err := r.dockerClient().Do(q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Body.Close()) }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", a.Status)
	}
	return json.NewDecoder(io.LimitReader(a.Body, maxAnswer)).Decode(out)
}
