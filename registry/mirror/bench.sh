#!/usr/bin/env bash
# Measure mirroring: sealer build of an image list beside the floor (the least
# work that a mirror can do), in alternating pairs, in a network namespace of
# its own; then the peers that are installed; then sealer push beside the floor
# of pushing. Prints medians, ratios, the targets and whether they are met; the
# exit code is 1 when one is missed.
#
#   bench.sh [MODE...]     lan, lan-tls, wan30cap, wan30cap-tls; none means all
#
# Needs root, iproute2, iptables, and the lab in $SHARED/perf, which makes the
# images, the floor and the link emulator. Settings:
#   BENCH   work directory, about 6 GB; 16 GB with L    (default /tmp/sealer-bench)
#   PAIRS   pairs for each mode                          (default 5)
#   CORPUS  S (20 images, 1.1 GB) or L (100 images, 4.3 GB; lan only makes sense)
#   PUSH    1 to measure pushing as well, 0 not to        (default 1)
#   PEERS   programs to measure as well                  (default "crane-pull-oci regsync skopeo-copy-oci"; "" for none)
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/registry/mirror
missed=0
SHARED=${SHARED:-../shared}
if [ ! -d "$SHARED/perf" ]; then
  echo "bench-mirror: $SHARED/perf is not here: nothing is measured"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "bench-mirror: needs root, for a network namespace" >&2
  exit 1
fi
modes=("$@")
[ ${#modes[@]} -gt 0 ] || modes=(lan lan-tls wan30cap wan30cap-tls)
pairs=${PAIRS:-5} corpus=${CORPUS:-S}
export P=${BENCH:-/tmp/sealer-bench} NS=${NS:-sealerbench} PRIO=0
mkdir -p "$P/bin" "$P/in" "$P/d"

# Programs: the lab's own, copied since it may be read-only; distribution as
# the upstream; sealer.
rm -rf "$P/lab" && cp -r "$SHARED/perf" "$P/lab"
# sealer is copied, as it is when it is installed: the linker's own file lies in
# the page cache in large folios, of which more is mapped, and counted as
# resident (56 MB for "sealer version"), than of a copy (36 MB).
go build -trimpath -o "$P/bin/sealer.linked" ./cmd/sealer
cp "$P/bin/sealer.linked" "$P/bin/sealer.new" && mv "$P/bin/sealer.new" "$P/bin/sealer"
(cd "$P/lab" && bash bench.sh build)
install() { # PROGRAM PACKAGE@VERSION
  [ -x "$P/bin/$1" ] || GOBIN=$P/bin go install "$2" || echo "bench-mirror: $1 does not install, left out" >&2
}
install registry github.com/distribution/distribution/v3/cmd/registry@v3.1.2
peers=${PEERS-crane-pull-oci regsync skopeo-copy-oci}
case "$peers" in *crane*) install crane github.com/google/go-containerregistry/cmd/crane@v0.22.1 ;; esac
case "$peers" in *reg*) install regsync github.com/regclient/regclient/cmd/regsync@v0.11.7; install regctl github.com/regclient/regclient/cmd/regctl@v0.11.7 ;; esac

up=$P/up/$corpus
if [ ! -e "$up/images.txt" ]; then
  case $corpus in
    S) "$P/bin/gen" -root "$up" -images 20 -mib 1024 -seed 1 ;;
    L) "$P/bin/gen" -root "$up" -images 100 -mib 4096 -seed 2 ;;
  esac
fi
ctx=$P/ctx-$corpus
mkdir -p "$ctx"
printf 'FROM scratch\nCOPY imageList manifests\n' > "$ctx/Kubefile"
sed 's#^#127.0.0.1:5000/#' "$up/images.txt" > "$ctx/imageList"
[ -e "$P/cert.pem" ] || (cd "$P" && go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host 127.0.0.1 --ca >/dev/null 2>&1)
mkdir -p "$P/certs/127.0.0.1:5000"
cp "$P/cert.pem" "$P/certs/127.0.0.1:5000/ca.crt"

cd "$P/lab"
# shellcheck disable=SC1091  # of the lab
. ./lib.sh
set +eu # its functions read variables that may be unset, and let commands fail
# upstream [TLS] starts distribution on port 5000, with an access log that
# run1 counts requests by. No REGISTRY_* variable may reach it.
upstream() { # [TLS [DIR]]
  {
    printf 'version: 0.1\nlog: {level: error, accesslog: {disabled: false}}\n'
    printf 'storage: {filesystem: {rootdirectory: %s, maxthreads: 100}, delete: {enabled: true}}\n' "${2:-$up}"
    printf "http: {addr: '127.0.0.1:5000'%s}\n" "${1:+, tls: {certificate: $P/cert.pem, key: $P/key.pem\}}"
  } > "$P/run/up.yml"
  env -i PATH="$PATH" OTEL_TRACES_EXPORTER=none ip netns exec "$NS" "$B/registry" serve "$P/run/up.yml" > "$P/run/up.log" 2>&1 &
  echo $! > "$P/run/up.pid"
  for _ in $(seq 100); do
    ns curl -kfs "http${1:+s}://127.0.0.1:5000/v2/" >/dev/null && return
    sleep 0.1
  done
  echo "bench-mirror: the upstream does not start, see $P/run/up.log" >&2
  exit 1
}
# verdict MODE RESULTS...
verdict() {
  local mode=$1 unique
  shift
  unique=$(sed 's/.*"uniqueBytes":\([0-9]*\).*/\1/' "$up/summary.json")
  python3 "$here/verdict.py" "$mode" "$(wc -l < "$up/images.txt")" "$unique" "$@" || missed=1
}
stop() {
  regdown up
  [ -z "${shaped:-}" ] || wandown >/dev/null
  shaped=
}
trap 'stop; nsdown' EXIT

# Our own work in the floor's terms: --all-platforms as the floor takes all, a
# store in the destination, and one syncfs at the end for both.
ours() { # TLS DEST
  local trust=(--insecure-registry http://127.0.0.1:5000)
  [ -z "$1" ] || trust=(--cert-dir "$P/certs")
  printf '%q ' env -i HOME="$P/home" PATH="$PATH" "$P/bin/sealer" --root "$2" --progress none \
    build -q --all-platforms -t bench:v1 "${trust[@]}" "$ctx"
}
floor() { # TLS DEST
  printf '%q ' "$P/bin/floor" -images "$up/images.txt" -dest "$2" -conns 8 -warm -fsync end ${1:+-reg https://127.0.0.1:5000}
}
mkdir -p "$P/home"
nsup
for mode in "${modes[@]}"; do
  tls=
  [ "${mode%-tls}" = "$mode" ] || tls=1
  OUT=$P/results-$mode-$corpus.jsonl
  rm -f "$OUT"
  "$P/bin/gen" -root "$up" -flip a >/dev/null
  upstream $tls
  case $mode in wan30cap*) shaped=1; wanup 15ms 1000 2097152 ;; esac
  for _ in $(seq "$pairs"); do
    for who in floor ours; do
      dest=$P/d/$who
      fresh "$dest"
      command=$($who "$tls" "$dest")
      m "$who/cold" "$dest" -- sh -c "$command"
      m "$who/warm" "$dest" -- sh -c "$command"
      "$P/bin/gen" -root "$up" -flip b >/dev/null
      m "$who/incr" "$dest" -- sh -c "$command"
      "$P/bin/gen" -root "$up" -flip a >/dev/null
      rm -rf "$dest"
    done
  done
  stop
  echo "## $mode, corpus $corpus, $pairs pairs"
  python3 table.py "$OUT"
  verdict "$mode" "$OUT"
done
for mode in "${modes[@]}"; do
  case $mode in lan | wan30cap) ;; *) continue ;; esac
  [ -n "$peers" ] || continue
  # shellcheck disable=SC2086  # a list of words
  OUT2=$P/results-peers-$mode-$corpus.jsonl CORPUS=$corpus bash peers.sh "$mode" 3 floor $peers >/dev/null 2>&1 || true
  echo "## peers, $mode, corpus $corpus"
  python3 table.py "$P/results-peers-$mode-$corpus.jsonl"
  verdict "$mode" "$P/results-$mode-$corpus.jsonl" <(grep -v '"floor/' "$P/results-peers-$mode-$corpus.jsonl")
done

# Pushing: the image set as one ClusterImage, beside the lab's push, which puts
# the same blobs into one manifest: into an empty registry, again, and with one
# image changed. Sources are made once, over plain loopback.
pushes() { # PHASE a|b WHO
  if [ "$3" = floor ]; then
    m "floor/$1" "$P/d/target" -- "$P/bin/push" -tree "$P/d/tree-$2" -conns 8 -skip "$([ "$1" = first ] && echo none || echo prev)"
  else
    m "ours/$1" "$P/d/target" -- env -i HOME="$P/home" PATH="$PATH" "$P/bin/sealer" --root "$P/d/store" --progress none \
      push --insecure-registry http://127.0.0.1:5000 "bench:$2" 127.0.0.1:5000/cluster/one:v1
  fi
}
if [ "${PUSH:-1}" = 1 ]; then
  fresh "$P/d/tree-a" "$P/d/store"
  for flip in a b; do
    "$P/bin/gen" -root "$up" -flip "$flip" >/dev/null
    upstream
    [ "$flip" = a ] || cp -al "$P/d/tree-a" "$P/d/tree-b"
    ns "$P/bin/floor" -images "$up/images.txt" -dest "$P/d/tree-$flip" -conns 8 -warm >/dev/null
    ns sh -c "$(ours '' "$P/d/store" | sed "s/bench:v1/bench:$flip/")" >/dev/null
    stop
  done
  "$P/bin/gen" -root "$up" -flip a >/dev/null
  for mode in "${modes[@]}"; do
    case $mode in lan | wan30cap) ;; *) continue ;; esac
    OUT=$P/results-push-$mode-$corpus.jsonl
    rm -f "$OUT"
    for _ in $(seq "$pairs"); do
      for who in floor ours; do
        fresh "$P/d/target"
        upstream '' "$P/d/target"
        [ "$mode" = lan ] || { shaped=1; wanup 15ms 1000 2097152; }
        pushes first a "$who"
        pushes again a "$who"
        pushes changed b "$who"
        stop
      done
    done
    echo "## push, $mode, corpus $corpus, $pairs pairs"
    python3 table.py "$OUT"
    verdict "$mode" "$OUT"
  done
  rm -rf "$P/d/tree-a" "$P/d/tree-b" "$P/d/store" "$P/d/target"
fi
exit "$missed"
