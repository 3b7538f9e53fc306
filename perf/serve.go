package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/registrytest"
)

// layerBytes is the size of the one large layer of serve and farm.
const layerBytes = 64 << 20

// large starts a registry with one image of one large layer, and writes a
// context that asks for it.
func (m *meter) large() (up *registrytest.Upstream, from string, err error) {
	name := "mirror.test/library/big:v1"
	up, err = registrytest.Start(registrytest.Options{Images: []registrytest.Image{{Name: name, Layers: []registrytest.Layer{{Name: "big", Size: layerBytes}}}}})
	if err != nil {
		return nil, "", err
	}
	conf := filepath.Join(m.dir, "registries.conf")
	m.env = []string{"CONTAINERS_REGISTRIES_CONF=" + conf}
	err = os.WriteFile(conf, []byte(up.RegistriesConf("mirror.test")), 0o600)
	if err == nil {
		from, err = m.context("context", map[string]string{"Kubefile": "FROM scratch\nCOPY imageList manifests\nCOPY files files\n", "imageList": name + "\n", "files/a": "a"})
	}
	return up, from, errors.Join(err)
}

// runServe measures the server's processor time for bytes and for requests.
func runServe(ctx context.Context, m *meter) error {
	up, from, err := m.large()
	if err != nil {
		return err
	}
	defer up.Close()
	root := filepath.Join(m.dir, "store")
	if _, err := m.sealerRun(ctx, root, "build", "-q", "--no-referrers", "--platform", "linux/amd64", "-t", "lab:v1", from); err != nil {
		return err
	}
	ready := filepath.Join(m.dir, "ready")
	server := exec.CommandContext(ctx, m.sealer, "--root", root, "--progress", "none", "registry", "serve", "lab:v1", "--addr", "127.0.0.1:0", "--ready-file", ready)
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Signal(os.Interrupt); _ = server.Wait() }()
	address, err := awaitFile(ctx, ready)
	if err != nil {
		return fmt.Errorf("registry serve: %w\n%s", err, said.String())
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	blob := registrytestLayer(up)
	rounds, requests := 64, 5000
	if m.quick {
		rounds, requests = 4, 50
	}
	bytes, err := m.ask(ctx, server.Process.Pid, address+"/v2/library/big/blobs/"+blob, rounds)
	if err != nil {
		return err
	}
	gb := float64(rounds) * layerBytes / 1e9
	small, err := m.ask(ctx, server.Process.Pid, address+"/v2/library/big/manifests/v1", requests)
	if err != nil {
		return err
	}
	return errors.Join(
		m.add(figure.Figure{Name: "processor time for a GB", Value: bytes.cpu / gb, Unit: "CPU s"}),
		m.add(figure.Figure{Name: "one client, one connection", Value: gb * 1000 / bytes.wall, Unit: "MB/s"}),
		m.add(figure.Figure{Name: "processor time for 1,000 manifests", Value: small.cpu / float64(requests) * 1000, Unit: "CPU s"}),
		m.add(figure.Figure{Name: "memory of the server", Value: statusField(server.Process.Pid, "VmHWM") * 1024 / 1e6, Unit: "MB of memory", Goal: new(64.0)}),
	)
}

// registrytestLayer returns the digest of the large layer.
func registrytestLayer(up *registrytest.Upstream) string {
	for d, b := range up.Content("mirror.test/library/big:v1").Blobs {
		if len(b) >= layerBytes {
			return d.String()
		}
	}
	return "none"
}

// ask gets a URL n times and returns the wall time and the processor time of
// the process pid.
func (m *meter) ask(ctx context.Context, pid int, url string, n int) (usage, error) {
	before, begin := processTime(pid), time.Now()
	for range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return usage{}, err
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return usage{}, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return usage{}, err
		}
		if resp.StatusCode != http.StatusOK {
			return usage{}, fmt.Errorf("get %s: %s", url, resp.Status)
		}
	}
	return usage{wall: time.Since(begin).Seconds(), cpu: processTime(pid) - before}, nil
}

// processTime returns the processor time of a process in seconds, in steps of a
// hundredth: fields 14 and 15 of /proc/PID/stat, proc(5).
func processTime(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var user, system float64
	_, _ = fmt.Sscan(fields[11], &user)
	_, _ = fmt.Sscan(fields[12], &system)
	return (user + system) / 100
}

// awaitFile waits for a file that a program writes when it is ready.
func awaitFile(ctx context.Context, name string) (string, error) {
	for range 200 {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b)), nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return "", errors.New("it is not ready after 10 s")
}

// runFarm builds on two machines, which share a cache in a registry.
func runFarm(ctx context.Context, m *meter) error {
	up, from, err := m.large()
	if err != nil {
		return err
	}
	defer up.Close()
	size := 40 << 20
	if m.quick {
		size = 1 << 20
	}
	if err := writeNoise(filepath.Join(from, "files", "noise"), size); err != nil {
		return err
	}
	cache, plain := up.Host()+"/cache/lab", "--insecure-registry="+up.Host()
	for _, machine := range []struct {
		name string
		more []string
	}{
		{"first machine, without a cache", nil},
		{"first machine, writes the cache", []string{"--cache-to", cache}},
		{"second machine, reads the cache", []string{"--cache-from", cache}},
	} {
		var used []usage
		for i := range 3 {
			root := filepath.Join(m.dir, fmt.Sprintf("store-%s-%d", machine.name[:5], i))
			if err := os.RemoveAll(root); err != nil {
				return err
			}
			args := append([]string{"build", "-q", "--no-referrers", "--platform", "linux/amd64", plain, "-t", "lab:v1"}, machine.more...)
			u, err := m.sealerRun(ctx, root, append(args, from)...)
			if err != nil {
				return err
			}
			used = append(used, u)
		}
		f := figure.Figure{Name: machine.name, Unit: "CPU s", Runs: len(used)}
		f.Value, f.Low, f.High = median(each(used, func(u usage) float64 { return u.cpu }))
		if err := m.add(f); err != nil {
			return err
		}
	}
	return nil
}

// writeNoise writes size bytes that compress to about half, the same each time.
func writeNoise(name string, size int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{1})
	_, err = io.CopyN(hex.NewEncoder(file), random, int64(size/2))
	return errors.Join(err, file.Close())
}
