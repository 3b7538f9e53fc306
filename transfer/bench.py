#!/usr/bin/env python3
"""Times of a ClusterImage's travel beside the floor and skopeo, in alternated pairs: part of make bench-travel.

bench.py SEALER UPSTREAM

SEALER and UPSTREAM are programs of this repository: UPSTREAM is the registry, distribution 3 with its files on disk. The
floor of a push or a pull is each blob once over 8 connections, hashed once, from or to a file; that of save and load is tar
beside sha256sum. Everything is on loopback; make bench-mirror has the links of 30 ms (root). A busy machine shifts seconds:
the ratio is the median of the pairs' ratios.

Settings: PAIRS (5), MIB (256: bytes of the image), FIGURES (a file that gets a line of JSON for each row, as perf/figure has it),
FIGURES (the file of make bench-all)."""
import concurrent.futures, hashlib, http.client, json, os, shutil, statistics, subprocess, sys, tempfile, time

sealer, upstream = map(os.path.abspath, sys.argv[1:3])
sealer = [sealer, "--progress", "none"]
pairs, mib = int(os.environ.get("PAIRS", 5)), int(os.environ.get("MIB", 256))
work = tempfile.mkdtemp(prefix="sealer-bench-travel-")
os.chdir(work)
env = dict(os.environ, SEALER_ROOT=work + "/near", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1", HOME=work)
LAYERS = 8


def run(*args):
    r = subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        sys.exit(f"bench-travel: {' '.join(args)}: exit code {r.returncode}\n{r.stdout}")
    return r.stdout


def timed(f):
    os.sync()
    begin = time.monotonic()
    f()
    return time.monotonic() - begin


class Registry:
    """An empty registry, its files in a directory of its own."""

    count = 0

    def __init__(self):
        Registry.count += 1
        self.dir, ready = f"{work}/registry{self.count}", f"{work}/ready{self.count}"
        os.mkdir(self.dir)
        self.process = subprocess.Popen([upstream, "-empty", "-dir", self.dir, "-ready-file", ready], stdout=subprocess.DEVNULL, env=env)
        while not os.path.exists(ready) or not open(ready).read().endswith("\n"):
            time.sleep(0.02)
        self.host = open(ready).read().strip()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir)


def blobs(layout):
    """The blobs of the image of an OCI layout: its manifest, and (digest, size) of all else."""
    top = json.load(open(f"{layout}/index.json"))["manifests"][0]
    path = f"{layout}/blobs/{top['digest'].replace(':', '/')}"
    manifest = json.load(open(path))
    return open(path, "rb").read(), top, [(d["digest"], d["size"]) for d in [manifest["config"]] + manifest["layers"]]


def each(work_of, items):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work_of, items))


def floor_push(layout, host, repository="team/app"):
    manifest, top, items = blobs(layout)

    def one(item):
        digest, size = item
        c = http.client.HTTPConnection(host, blocksize=1 << 20)
        c.request("POST", f"/v2/{repository}/blobs/uploads/")
        r = c.getresponse()
        r.read()
        at = r.getheader("Location").replace(f"http://{host}", "")
        with open(f"{layout}/blobs/{digest.replace(':', '/')}", "rb") as f:
            c.request("PUT", at + ("&" if "?" in at else "?") + "digest=" + digest.replace(":", "%3A"), f, {"Content-Length": str(size), "Content-Type": "application/octet-stream"})
        r = c.getresponse()
        r.read()
        assert r.status == 201, (r.status, digest)

    each(one, sorted(items, key=lambda i: -i[1]))
    c = http.client.HTTPConnection(host)
    c.request("PUT", f"/v2/{repository}/manifests/v1", manifest, {"Content-Type": top["mediaType"]})
    assert c.getresponse().status == 201


def floor_pull(layout, host, to):
    os.mkdir(to)
    _, _, items = blobs(layout)

    def one(item):
        digest, _ = item
        c = http.client.HTTPConnection(host, blocksize=1 << 20)
        c.request("GET", f"/v2/team/app/blobs/{digest}")
        r, h = c.getresponse(), hashlib.sha256()
        with open(f"{to}/{digest[7:]}", "wb") as f:
            while b := r.read(1 << 20):
                h.update(b)
                f.write(b)
        assert h.hexdigest() == digest[7:]

    each(one, sorted(items, key=lambda i: -i[1]))
    os.sync()


def container(host):
    """Pushes a container image of LAYERS layers, and returns its reference: nobody unpacks them here."""

    def blob(content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        with open("origin/blobs/" + digest.replace(":", "/"), "wb") as f:
            f.write(content)
        return {"digest": digest, "size": len(content)}

    os.makedirs("origin/blobs/sha256")
    config = blob(b'{"architecture":"amd64","os":"linux"}') | {"mediaType": "application/vnd.oci.image.config.v1+json"}
    layers = [blob(os.urandom(max(1, mib // LAYERS) << 20)) | {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"} for _ in range(LAYERS)]
    kind = "application/vnd.oci.image.manifest.v1+json"
    top = blob(json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers}).encode()) | {"mediaType": kind}
    with open("origin/index.json", "w") as f:
        json.dump({"manifests": [top]}, f)
    floor_push("origin", host, "apps/web")
    shutil.rmtree("origin")
    return f"{host}/apps/web:v1"


def row(name, goal, *contestants):
    """contestants: (name, function); the first is sealer, the second the floor."""
    times = {n: [] for n, _ in contestants}
    for i in range(pairs):
        for n, f in contestants if i % 2 == 0 else contestants[::-1]:
            times[n].append(f())
    base = times[contestants[1][0]]
    out = {"bench": "travel-time", "what": name, "link": "loopback", "MiB": mib, "pairs": pairs, "goal": goal}
    text = ""
    for n, _ in contestants:
        ratio = statistics.median(a / b for a, b in zip(times[n], base))
        out[n] = {"seconds": round(statistics.median(times[n]), 3), "ratio": round(ratio, 3)}
        text += f"  {n} {out[n]['seconds']:.2f} s ({ratio:.2f}x)"
    out["met"] = out["sealer"]["ratio"] <= goal
    print(f"{name:6}{text}  goal {goal}x: {'met' if out['met'] else 'MISSED'}", flush=True)
    if os.environ.get("FIGURES"):  # the lines of perf/figure
        with open(os.environ["FIGURES"], "a") as f:
            for n, _ in contestants[1:]:
                line = {"figure": f"travel/{name}, {mib} MiB", "value": out["sealer"]["seconds"], "unit": "s", "runs": pairs, "peer": n, "peerValue": out[n]["seconds"]}
                line.update({"low": min(times["sealer"]), "high": max(times["sealer"])}, **({"goal": goal} if n == contestants[1][0] else {}))
                f.write(json.dumps(line) + "\n")


try:
    origin = Registry()
    image = container(origin.host)
    os.mkdir("context")
    for name, text in {"Kubefile": "FROM scratch\nCOPY imageList manifests\n", "imageList": image + "\n"}.items():
        with open(f"context/{name}", "w") as f:
            f.write(text)
    run(*sealer, "build", "-q", "-t", "app:v1", "--insecure-registry", origin.host, "context")
    origin.stop()
    run(*sealer, "save", "-o", "app.tar", "app:v1")
    os.mkdir("layout")
    run("tar", "-C", "layout", "-xf", "app.tar")
    skopeo = shutil.which("skopeo")

    def push(f):
        r = Registry()
        try:
            return timed(lambda: f(r.host))
        finally:
            r.stop()

    def ours_push(host):
        run(*sealer, "push", "--insecure-registry", host, "app:v1", f"{host}/team/app:v1")

    def skopeo_push(host):
        run(skopeo, "copy", "-q", "--insecure-policy", "--dest-tls-verify=false", "oci:layout", f"docker://{host}/team/app:v1")

    peers = [("skopeo", lambda: push(skopeo_push))] if skopeo else []
    row("push", 1.15, ("sealer", lambda: push(ours_push)), ("floor", lambda: push(lambda h: floor_push("layout", h))), *peers)

    source = Registry()
    floor_push("layout", source.host)

    def fresh(f):
        shutil.rmtree("far", ignore_errors=True)
        try:
            return timed(f)
        finally:
            shutil.rmtree("far", ignore_errors=True)

    def skopeo_pull():
        run(skopeo, "copy", "-q", "--insecure-policy", "--src-tls-verify=false", f"docker://{source.host}/team/app:v1", "oci:far")
        os.sync()

    peers = [("skopeo", lambda: fresh(skopeo_pull))] if skopeo else []
    row("pull", 1.15, ("sealer", lambda: fresh(lambda: run(*sealer, "--root", "far", "pull", "--insecure-registry", source.host, f"{source.host}/team/app:v1"))),
        ("floor", lambda: fresh(lambda: floor_pull("layout", source.host, "far"))), *peers)
    source.stop()

    def file(f):
        if os.path.exists("out.tar"):
            os.remove("out.tar")
        return timed(f)

    row("save", 1.1, ("sealer", lambda: file(lambda: run(*sealer, "save", "-o", "out.tar", "app:v1"))),
        ("floor", lambda: file(lambda: run("bash", "-c", "set -o pipefail; tar -C layout -c . | tee out.tar | sha256sum; sync out.tar"))))
    row("load", 1.1, ("sealer", lambda: fresh(lambda: run(*sealer, "--root", "far", "load", "-i", "app.tar"))),
        ("floor", lambda: fresh(lambda: (os.mkdir("far"), run("bash", "-c", "set -o pipefail; tee >(sha256sum >sum) < app.tar | tar -C far -x; sync")))))
finally:
    shutil.rmtree(work, ignore_errors=True)
