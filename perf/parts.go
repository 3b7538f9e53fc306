package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// A part is one section of the page.
type part struct {
	name, title string
	command     string // for a reader who wants this part alone
	about       string // what was done, and how to read it
	limit       time.Duration
	run         func(ctx context.Context, m *meter) error
}

// parts are in the order of the page. Together they take less than 30 minutes
// on two idle processors; the limits stop one that hangs.
var parts = []part{
	{
		name: "version", title: "The program itself", command: "make bench-all ONLY=version", limit: 2 * time.Minute, run: runVersion,
		about: "Starting without any work, in alternation with a peer. Processor time is what a script pays for each call.",
	},
	{
		name: "images", title: "By the number of container images", command: "make bench-all ONLY=images", limit: 6 * time.Minute, run: runImages,
		about: "Images of 4 blobs (index of one platform, manifest, config and layers of 512 bytes), so that the work of each image is seen and not its bytes. The registry is on loopback and counts requests.",
	},
	{
		name: "files", title: "By the number of files", command: "make bench-all ONLY=files", limit: 4 * time.Minute, run: runFiles,
		about: "One COPY of files of about 30 bytes, below 300 directories.",
	},
	{
		name: "layers", title: "By the number of layers", command: "make bench-all ONLY=layers", limit: 4 * time.Minute, run: runLayers,
		about: "One COPY of one file each.",
	},
	{
		name: "stored", title: "By the number of images in the store", command: "make bench-all ONLY=stored", limit: 3 * time.Minute, run: runStored,
		about: "Images of 100 blobs and 50 kB of config, of which neighbours share half. Within the program: its start comes on top.",
	},
	{
		name: "nodes", title: "By the number of machines", command: "make bench-all ONLY=nodes", limit: 4 * time.Minute, run: runNodes,
		about: "The engine's own part of `sealer run`: real SSH, facts, preflight, plan, steps, journals. The machines answer within the same process and do nothing, and what they use counts, too.",
	},
	{
		name: "spread", title: "Bringing a blob to many machines (simulation)", command: "make bench-all ONLY=spread", limit: 2 * time.Minute, run: runSpread,
		about: "The code that decides who gets a blob from whom, in virtual time: every machine and the engine send 1 Gbit/s, shared by their transfers; 1 GB has to reach all. No bytes move.",
	},
	{
		name: "serve", title: "Serving", command: "make bench-all ONLY=serve", limit: 2 * time.Minute, run: runServe,
		about: "`sealer registry serve` on loopback without TLS, by one client after the other; processor time is the server's alone.",
	},
	{
		name: "farm", title: "Build farms", command: "make bench-all ONLY=farm", limit: 3 * time.Minute, run: runFarm,
		about: "The second machine builds what the first one has built, with `--cache-from` the registry that the first wrote with `--cache-to`, into an empty store.",
	},
	{
		name: "corpus", title: "Finding images", command: "make corpus; go test ./imagelist -run '^$' -bench Repository -benchtime 1x", limit: 6 * time.Minute, run: runCorpus,
		about: "Real charts and manifests, judged against lists made by hand (they lie outside of this repository), and 1,127 charts as `helm create` makes them, in one scan.",
	},
	{
		name: "build", title: "Building", command: "make bench-build", limit: 8 * time.Minute, run: runBuild,
		about: "A tenth of what `make bench-build` measures: 2,000 files of 512 MB, 100 images. In alternating pairs.",
	},
	{
		name: "mirror", title: "Mirroring and pushing", command: "make bench-mirror", limit: 14 * time.Minute, run: runMirror,
		about: "20 images, 1.1 GB, beside the least that a mirror can do (each blob once over 8 connections, one hash, one write), and the tools of others; on loopback, and at 30 ms with 1 Gbit/s and 40 MB/s a connection.",
	},
	{
		name: "resume", title: "Going on inside a blob", command: "make bench-resume", limit: 6 * time.Minute, run: runResume,
		about: "A blob of 1 GiB over a link that is cut every 100 MB; the build is killed at each cut.",
	},
	{
		name: "travel", title: "Travelling", command: "make bench-travel", limit: 8 * time.Minute, run: runTravel,
		about: "Requests and bytes by a registry that counts; processor time by the number of blobs.",
	},
	{
		name: "run", title: "Making a cluster", command: "make bench-run", limit: 15 * time.Minute, run: runCluster,
		about: "Real Kubernetes on test machines (namespaces of one kernel), beside the same cluster made by hand.",
	},
}

func runStored(ctx context.Context, m *meter) error {
	sizes := "(10|100|1000|3000)"
	if m.quick {
		sizes = "(10|100)"
	}
	return m.script(ctx, nil, "go", "test", "./store", "-run", "^$", "-bench", "^BenchmarkStored$/^images="+sizes+"$", "-benchtime", "1x")
}

func runNodes(ctx context.Context, m *meter) error {
	sizes := "(1|20|200|1000)"
	if m.quick {
		sizes = "(1|20)"
	}
	return m.script(ctx, nil, "go", "test", "./cmd/sealer", "-run", "^$", "-bench", "^BenchmarkMachines$/^machines="+sizes+"$", "-benchtime", "1x")
}

func runSpread(ctx context.Context, m *meter) error {
	return m.script(ctx, nil, "go", "test", "./cluster/spread", "-count", "1", "-run", "^TestSimulation$")
}

func runCorpus(ctx context.Context, m *meter) error {
	if err := m.script(ctx, nil, "make", "corpus"); err != nil {
		return err
	}
	if m.quick {
		return nil
	}
	return m.script(ctx, nil, "go", "test", "./imagelist", "-run", "^$", "-bench", "Repository$", "-benchtime", "1x")
}

func runBuild(ctx context.Context, m *meter) error {
	scale, pairs := "SCALE=10", "PAIRS=3"
	if m.quick {
		scale, pairs = "SCALE=5", "PAIRS=1"
	}
	return m.script(ctx, []string{scale, pairs, "BENCH=" + m.dir}, "bash", "build/bench.sh")
}

func runMirror(ctx context.Context, m *meter) error {
	for _, program := range []string{"ip", "iptables", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			return unable{program + " is not on this machine"}
		}
	}
	pairs, modes := "PAIRS=3", []string{"lan", "wan30cap"}
	if m.quick {
		pairs, modes = "PAIRS=1", modes[:1]
	}
	return m.script(ctx, []string{pairs, "BENCH=" + m.dir, "PEERS=crane-pull-oci skopeo-copy-oci"}, "bash", append([]string{"registry/mirror/bench.sh"}, modes...)...)
}

func runResume(ctx context.Context, m *meter) error {
	return m.script(ctx, nil, "make", "bench-resume")
}

func runTravel(ctx context.Context, m *meter) error {
	which := "Travel|Blobs"
	if m.quick {
		which = "Travel/images=20$"
	}
	err := m.script(ctx, nil, "go", "test", "./transfer", "-run", "^$", "-bench", which, "-benchtime", "1x")
	if _, missing := exec.LookPath("python3"); missing != nil {
		return errors.Join(err, unable{"python3 is not on this machine: no times"})
	}
	upstream := filepath.Join(m.dir, "upstream")
	if bad := m.script(ctx, nil, "go", "build", "-o", upstream, "./registry/registrytest/upstream"); bad != nil {
		return errors.Join(err, bad)
	}
	pairs := "PAIRS=3"
	if m.quick {
		pairs = "PAIRS=1"
	}
	return errors.Join(err, m.script(ctx, []string{pairs}, "python3", "transfer/bench.py", m.sealer, upstream))
}

func runCluster(ctx context.Context, m *meter) error {
	if out, err := exec.CommandContext(ctx, "bash", "cluster/clustertest/programs.sh").CombinedOutput(); err != nil {
		return unable{fmt.Sprintf("the programs of a cluster are not at hand, and compiling them takes 10 minutes (make bench-run does): %s", out)}
	}
	runs := "RUNS=3"
	if m.quick {
		runs = "RUNS=1"
	}
	return m.script(ctx, []string{runs}, "bash", "cluster/clustertest/run", "bench")
}
