package main

import (
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/clusterimage/sealer/cluster/clustertest/kubeapi"
)

// startKubeAPI is the command kubeapi FILE NODE... of scripts: it starts an API
// server that knows the nodes, all ready, and takes whatever is written to it; FILE
// gets the administrator's kubeconfig. A kubeadm of a script copies that to its
// place. KUBEPORT is the server's port. The list of the pods of all namespaces is
// what FILE.pods holds, or empty. REGISTRYPORT is a port for the cluster's registry.
func startKubeAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: kubeapi FILE NODE...")
	}
	s := httptest.NewTLSServer(kubeapi.Handler(args[1:], func() []byte {
		b, _ := os.ReadFile(ts.MkAbs(args[0]) + ".pods") // a script may have none
		return b
	}))
	ts.Defer(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	ts.Check(err)
	ts.Setenv("KUBEPORT", port)
	registry, err := freePort()
	ts.Check(err)
	ts.Setenv("REGISTRYPORT", registry)
	ts.Defer(func() { endServices(ts.MkAbs("machine")) })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), kubeapi.Kubeconfig(s.URL, ca), 0o600))
}

// lastPort is the port that freePort gave last, or where it begins: test processes
// that run beside each other begin at different ones.
var lastPort atomic.Int64

// freePort returns a port at which nothing listens. It is below those that systems
// give to connections, so that none takes it before the service listens. Each call
// returns another.
func freePort() (string, error) {
	const first, count = 15000, 15000
	lastPort.CompareAndSwap(0, int64(os.Getpid()))
	for range count {
		port := strconv.Itoa(first + int(lastPort.Add(1)%count))
		l, err := net.Listen("tcp", ":"+port)
		if err == nil {
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("no port from %d on is free", first)
}

// endServices ends what sealer's supervisor keeps running on the machine in dir:
// a script that fails leaves it.
func endServices(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "var/lib/sealer/data/*/units/*.pid"))
	for _, f := range files {
		var pid int
		b, rerr := os.ReadFile(f)
		if _, serr := fmt.Sscan(string(b), &pid); err == nil && rerr == nil && serr == nil && pid > 1 {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Signal(syscall.SIGTERM) // it may be gone
			}
		}
	}
}

// snapshot FILE DIR writes all that is in DIR to FILE: types, modes, links and
// contents, sorted; for cmp.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot FILE DIR")
	}
	root := ts.MkAbs(args[1])
	var lines []string
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", rel, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		}
		lines = append(lines, line)
		return nil
	}))
	slices.Sort(lines)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}
