#!/usr/bin/env bash
# One ClusterImage out of the charts and manifests of real projects, mirrored
# from an upstream on loopback that answers for any repository and tag with a
# small image. "make real" builds the programs and runs this.
set -euo pipefail
cd "$(dirname "$0")/.."

shared=${SHARED:-../shared}
if [ ! -d "$shared/corpus/cases" ]; then
  echo "real: $shared/corpus/cases is absent; nothing to do (set SHARED to where it is)"
  exit 0
fi
cases=(14-kube-prometheus-manifests 06-longhorn-chart 20-kubernetes-examples 47-kubernetes-dashboard 44-sealer-apps-a)

work=$(mktemp -d)
upstream=
finish() {
  status=$?
  [ -z "$upstream" ] || kill "$upstream" 2>/dev/null || true
  wait 2>/dev/null || true
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work"
  [ "$status" = 0 ] || echo "real: FAILED" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM
export SEALER_ROOT=$work/store HOME=$work/home CONTAINERS_REGISTRIES_CONF=$work/registries.conf
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy || true
mkdir -p "$HOME" "$work/context/charts" "$work/context/manifests"
PATH=$PWD/bin:$PATH

upstream -any -addr 127.0.0.1:0 -ready-file "$work/addr" >"$work/upstream.log" 2>&1 &
upstream=$!
for _ in $(seq 100); do [ -s "$work/addr" ] && break; sleep 0.1; done
addr=$(cat "$work/addr")

# Each case becomes a folder of its own below charts and manifests, so that
# the provenance of an image tells its case.
for c in "${cases[@]}"; do
  for kind in charts manifests; do
    [ -d "$shared/corpus/cases/$c/input/$kind" ] || continue
    cp -r "$shared/corpus/cases/$c/input/$kind" "$work/context/$kind/$c"
  done
done
chmod -R u+w "$work/context"
printf 'FROM scratch\nCOPY charts .\nCOPY manifests .\n' > "$work/context/Kubefile"
for host in $(sealer scan "$work/context" -o imageList | sed 's#/.*##' | sort -u); do
  printf '[[registry]]\nprefix = "%s"\nlocation = "%s/%s"\ninsecure = true\n\n' "$host" "$addr" "$host"
done > "$work/registries.conf"

sealer build -t real:v1 "$work/context"
sealer verify real:v1
echo
sealer inspect real:v1 --images --format '{{$r := .Reference}}{{range .Found}}{{println $r .File}}{{end}}' > "$work/found"
for c in "${cases[@]}"; do
  awk -v at="/$c/" 'index($2, at) { print "    " $1 }' "$work/found" | sort -u > "$work/of-case"
  printf '%s: %d images\n' "$c" "$(wc -l < "$work/of-case")"
  cat "$work/of-case"
done
echo
sealer images
