package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/clusterimage/sealer/registry/registrytest"
)

// upstreams are the registries of one script by their names.
type upstreams map[string]*registrytest.Upstream

const upstreamsKey = "upstreams"

// upstream NAME [-empty] [-any] [-plain] [-referrers] [-auth basic|bearer] [-tls] [-strict] [-hosts HOST,...]
// starts a registry on loopback and puts its address in $NAME. -plain adds a
// ClusterImage as sealer 0.9 made them. With images
// (without -empty) it stands in for docker.io, ghcr.io, quay.io and
// registry.k8s.io, or the hosts given, through $CONTAINERS_REGISTRIES_CONF.
// -strict refuses an index whose manifests are not all there.
// User and password of -auth are u and p. With -tls its CA lies in $NAME_CA.
func startUpstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: upstream NAME [flags]")
	}
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	empty := flags.Bool("empty", false, "")
	anything := flags.Bool("any", false, "")
	plain := flags.Bool("plain", false, "")
	referrers := flags.Bool("referrers", false, "")
	auth := flags.String("auth", "", "")
	tls := flags.Bool("tls", false, "")
	strict := flags.Bool("strict", false, "")
	hosts := flags.String("hosts", "docker.io,ghcr.io,quay.io,registry.k8s.io", "")
	ts.Check(flags.Parse(args[1:]))
	o := registrytest.Options{Any: *anything, TLS: *tls, Strict: *strict, Referrers: *referrers}
	if !*empty {
		o.Images = registrytest.Samples()
	}
	if *plain {
		im, err := registrytest.PlainClusterImage()
		ts.Check(err)
		o.Images = append(o.Images, im)
	}
	switch *auth {
	case "basic":
		o.Auth = registrytest.Auth{Scheme: registrytest.Basic, User: "u", Password: "p"}
	case "bearer":
		o.Auth = registrytest.Auth{Scheme: registrytest.Bearer, User: "u", Password: "p"}
	}
	up, err := registrytest.Start(o)
	ts.Check(err)
	ts.Defer(func() { ts.Check(up.Close()) })
	ts.Value(upstreamsKey).(upstreams)[args[0]] = up
	ts.Setenv(args[0], up.Host())

	conf := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = %v\n\n", up.Host(), !*tls)
	if !*empty {
		conf += up.RegistriesConf(strings.Split(*hosts, ",")...)
	}
	path := ts.MkAbs("registries.conf")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = f.WriteString(conf)
	ts.Check(err)
	ts.Check(f.Close())
	ts.Setenv("CONTAINERS_REGISTRIES_CONF", path)
	if *tls {
		ca := ts.MkAbs(args[0] + "-ca.crt")
		ts.Check(os.WriteFile(ca, up.CA(), 0o644))
		ts.Setenv(args[0]+"_CA", ca)
	}
}

// fault NAME LEVEL TIMES ACTION [N] injects a fault into an upstream: LEVEL is
// ping, token, manifest, blob …; ACTION is a status code, cut, truncate, corrupt
// stall, endless, or trickle: N bytes every 50 ms. fault NAME none removes all.
func injectFault(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 2 && args[1] == "none" {
		ts.Value(upstreamsKey).(upstreams)[args[0]].ClearFaults()
		return
	}
	if neg || len(args) < 4 {
		ts.Fatalf("usage: fault NAME LEVEL TIMES ACTION [N]; fault NAME none")
	}
	number := func(i int) int {
		if len(args) <= i {
			return 0
		}
		n, err := strconv.Atoi(args[i])
		ts.Check(err)
		return n
	}
	var do registrytest.Action
	switch args[3] {
	case "cut":
		do = registrytest.Cut(number(4))
	case "stall":
		do = registrytest.Stall(number(4))
	case "truncate":
		do = registrytest.Truncate(number(4))
	case "corrupt":
		do = registrytest.Corrupt()
	case "endless":
		do = registrytest.Endless()
	case "trickle":
		do = registrytest.Trickle(number(4), 50*time.Millisecond)
	default:
		do = registrytest.Status(number(3))
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	if up == nil {
		ts.Fatalf("fault: no upstream %s", args[0])
	}
	up.Inject(registrytest.Fault{On: registrytest.Level(args[1]), Times: number(2), Do: do})
}

// attach NAME IMAGE KIND CONTENT [DIGEST] publishes an artifact that belongs to an
// image of the upstream, or to its artifact DIGEST; see registrytest.Artifact. It
// puts the digests of the artifact and of its subject in $ATTACHED and $SUBJECT.
func attach(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: attach NAME IMAGE KIND CONTENT [DIGEST]")
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	if up == nil {
		ts.Fatalf("attach: no upstream %s", args[0])
	}
	var on digest.Digest
	if len(args) > 4 {
		on = digest.Digest(args[4])
	}
	d, subject, err := up.Attach(args[1], on, registrytest.Artifact{Kind: args[2], Content: args[3]})
	ts.Check(err)
	ts.Setenv("ATTACHED", d.String())
	ts.Setenv("SUBJECT", subject.String())
}

// requests NAME LEVEL COUNT [METHOD...] fails unless the upstream has answered
// COUNT such requests, "any" for every level, since the last call of requests, or since its start. A COUNT
// of "-" is any number.
func countRequests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: requests NAME LEVEL COUNT [METHOD...]")
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	if up == nil {
		ts.Fatalf("requests: no upstream %s", args[0])
	}
	level := registrytest.Level(args[1])
	if args[1] == "any" {
		level = registrytest.Any
	}
	got := up.Count(level, args[3:]...)
	up.ResetRequests()
	if args[2] != "-" && strconv.Itoa(got) != args[2] {
		ts.Fatalf("%d requests, want %s", got, args[2])
	}
}

// sent NAME MIN MAX fails unless the upstream has sent MIN to MAX bytes of bodies
// since the last call of sent or requests.
func countBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sent NAME MIN MAX")
	}
	up := ts.Value(upstreamsKey).(upstreams)[args[0]]
	var got int64
	for _, r := range up.Requests() {
		got += r.Bytes
	}
	up.ResetRequests()
	least, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	most, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	if got < least || got > most {
		ts.Fatalf("%d bytes, want %d to %d", got, least, most)
	}
}

// notemps fails when the store has temporary files or directories left.
func noTemporaries(ts *testscript.TestScript, neg bool, args []string) {
	dir := filepath.Join(ts.Getenv("SEALER_ROOT"), "tmp")
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return
	}
	ts.Check(err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "session") {
			ts.Fatalf("left behind: %s", filepath.Join(dir, e.Name()))
		}
	}
}
