package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

const chartReposKey = "chartrepos"

// A chartRepo is a chart repository of a script.
type chartRepo struct {
	mu       sync.Mutex
	entries  map[string][]map[string]any
	archives map[string][]byte
	index    string // in place of the entries
}

// packChart packs the chart in a directory of the script. The bytes depend on its
// files alone.
func packChart(ts *testscript.TestScript, dir string) (name, version string, config, archive []byte) {
	meta := map[string]any{}
	b, err := os.ReadFile(filepath.Join(ts.MkAbs(dir), "Chart.yaml"))
	ts.Check(err)
	ts.Check(yaml.Unmarshal(b, &meta))
	config, err = json.Marshal(meta)
	ts.Check(err)
	name, version = fmt.Sprint(meta["name"]), fmt.Sprint(meta["version"])
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	fsys := os.DirFS(ts.MkAbs(dir))
	ts.Check(fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, file)
		if err == nil {
			err = tw.WriteHeader(&tar.Header{Name: path.Join(name, file), Mode: 0o644, Size: int64(len(b))})
		}
		if err == nil {
			_, err = tw.Write(b)
		}
		return err
	}))
	ts.Check(tw.Close())
	ts.Check(zw.Close())
	return name, version, config, buf.Bytes()
}

// chartpush UPSTREAM REPOSITORY DIR pushes the chart in DIR to a registry, and
// puts its digest into $CHART_DIGEST.
func chartpush(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: chartpush UPSTREAM REPOSITORY DIR")
	}
	_, version, config, archive := packChart(ts, args[2])
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	d, err := up.AddChart(args[1], strings.ReplaceAll(version, "+", "_"), config, archive)
	ts.Check(err)
	ts.Setenv("CHART_DIGEST", d.String())
}

// chartrepo NAME [-tls] [-auth] [-index FILE] [-url PREFIX] [DIR...] puts the
// charts in the directories into a chart repository, whose address is $NAME. The
// first call starts it: over plain http, which registries.conf then allows, or
// with -tls, its CA being in certs.d. User and password of -auth are u and p.
// -index serves a file in place of the index, -url changes where the archives are
// said to be.
func chartrepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: chartrepo NAME [-tls] [-auth] [-index FILE] [-url PREFIX] [DIR...]")
	}
	name, args := args[0], args[1:]
	repos := ts.Value(chartReposKey).(map[string]*chartRepo)
	r := repos[name]
	started := r != nil
	if !started {
		r = &chartRepo{entries: map[string][]map[string]any{}, archives: map[string][]byte{}}
		repos[name] = r
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index = ""
	tls, auth, prefix := false, false, ""
	for len(args) > 0 {
		switch args[0] {
		case "-tls":
			tls = true
		case "-auth":
			auth = true
		case "-index":
			r.index, args = ts.ReadFile(args[1]), args[1:]
		case "-url":
			prefix, args = args[1], args[1:]
		default:
			chart, version, _, archive := packChart(ts, args[0])
			file := chart + "-" + version + ".tgz"
			r.archives[file] = archive
			r.entries[chart] = append(r.entries[chart], map[string]any{"name": chart, "version": version,
				"urls": []string{prefix + file}, "digest": digest.FromBytes(archive).Encoded()})
		}
		args = args[1:]
	}
	if !started {
		r.start(ts, name, tls, auth)
	}
}

func (r *chartRepo) start(ts *testscript.TestScript, name string, tls, auth bool) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if user, password, _ := q.BasicAuth(); auth && (user != "u" || password != "p") {
			w.WriteHeader(http.StatusUnauthorized) // without a challenge, as some repositories do
			return
		}
		file := path.Base(q.URL.Path)
		b, ok := r.archives[file]
		if file == "index.yaml" {
			index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": r.entries})
			if b, ok = index, err == nil; r.index != "" {
				b = []byte(r.index)
			}
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(b) // the client may be gone
	}))
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	ts.Defer(s.Close)
	host := s.Listener.Addr().String()
	ts.Setenv(name, host)
	if tls {
		dir := ts.MkAbs(filepath.Join("certs", host))
		ts.Check(os.MkdirAll(dir, 0o755))
		ts.Check(os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
		return
	}
	conf := ts.MkAbs("registries.conf")
	f, err := os.OpenFile(conf, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = fmt.Fprintf(f, "[[registry]]\nlocation = %q\ninsecure = true\n\n", host)
	ts.Check(err)
	ts.Check(f.Close())
	ts.Setenv("CONTAINERS_REGISTRIES_CONF", conf)
}
