#!/usr/bin/env bash
# The main job of sealer, end to end, on this machine and with no network:
# build, inspect, push, pull, serve, and fetch the images back, each byte
# checked. "make demo" builds the programs and runs this.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
pids=()
finish() {
  status=$?
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work"
  [ "$status" = 0 ] || printf '\nDEMO FAILED (exit code %s): the step above is where it went wrong.\n' "$status" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

export SEALER_ROOT=$work/store HOME=$work/home CONTAINERS_REGISTRIES_CONF=$work/registries.conf
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy || true
mkdir -p "$HOME"
PATH=$PWD/bin:$PATH
platform=linux/$(go env GOARCH)
n=0
step() { n=$((n + 1)); printf '\n== %d. %s\n' "$n" "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
must() { # must 'what is expected' COMMAND...
  local what=$1; shift
  if "$@"; then echo "   ok: $what"; else echo "   NOT SO: $what" >&2; exit 1; fi
}
same() { # same 'what' A B
  if [ "$2" = "$3" ]; then echo "   ok: $1"; else printf '   NOT SO: %s\n   %s\n   %s\n' "$1" "$2" "$3" >&2; exit 1; fi
}
blobs() { sed -n 's/^\(sha256:[0-9a-f]* *[0-9]* bytes\).*/\1/p'; }
start() { # start NAME PROGRAM...: in the background, until it has written its address
  local name=$1; shift
  "$@" >"$work/$name.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 100); do
    [ -s "$work/$name.addr" ] && return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  echo "$name did not start:" >&2; cat "$work/$name.log" >&2; exit 1
}

step "An upstream registry on loopback stands in for docker.io and ghcr.io"
start upstream upstream -addr 127.0.0.1:0 -ready-file "$work/upstream.addr"
upstream=$(cat "$work/upstream.addr")
for host in docker.io ghcr.io; do
  printf '[[registry]]\nprefix = "%s"\nlocation = "%s/%s"\ninsecure = true\n\n' "$host" "$upstream" "$host"
done > "$work/registries.conf"
cat "$work/registries.conf"

step "Build three ClusterImages, one on top of the other"
echo "A base rootfs, from files alone:"
run sealer build -t kubernetes-rawdocker:v1.19.8 examples/kubernetes-rawdocker
echo "The Kyverno BaseImage: its images are found and mirrored into a registry layer:"
run sealer build -t kubernetes-kyverno:v1.19.8 examples/kyverno
echo "An application with one more image:"
run sealer build -t my-nginx-kubernetes:v1.19.8 examples/my-nginx

step "What the store holds"
run sealer images
same "three images are listed" 3 "$(sealer images -q | wc -l)"

step "What is inside: the last layer is the registry layer"
run sealer inspect my-nginx-kubernetes:v1.19.8
layer=$(sealer inspect my-nginx-kubernetes:v1.19.8 --format '{{with index .Spec.Layers (len (slice .Spec.Layers 1))}}{{.Type}} {{.Value}} {{.ID}}{{end}}')
same "its type is BASE, its value is registry cache" "BASE registry cache" "${layer% *}"
repositories=$SEALER_ROOT/data/overlay2/${layer##* }/registry/docker/registry/v2/repositories
run ls "$repositories/library"
must "the nginx repository is in it, with the tag latest" test -s "$repositories/library/nginx/_manifests/tags/latest/current/link"

step "Push it to a second registry"
start target upstream -empty -addr 127.0.0.1:0 -ready-file "$work/target.addr"
target=$(cat "$work/target.addr")
printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$target" >> "$work/registries.conf"
run sealer tag my-nginx-kubernetes:v1.19.8 "$target/demo/my-nginx-kubernetes:v1.19.8"
run sealer push "$target/demo/my-nginx-kubernetes:v1.19.8"
pushed=$(sealer images --format '{{.Name}} {{.Digest}}' | awk -v n="$target/demo/my-nginx-kubernetes:v1.19.8" '$1 == n { print $2 }')

step "Pull it into an empty store, on what could be another machine"
export SEALER_ROOT=$work/elsewhere
run sealer pull "$target/demo/my-nginx-kubernetes:v1.19.8"
run sealer images
pulled=$(sealer images --format '{{.Digest}}')
same "the digest is the one that was pushed" "$pushed" "$pulled"

step "Verify it: every digest, every link, every image that discovery recorded"
run sealer verify "$target/demo/my-nginx-kubernetes:v1.19.8"

step "Serve its images, straight from the store"
start serve sealer registry serve "$target/demo/my-nginx-kubernetes:v1.19.8" --addr 127.0.0.1:0 --ready-file "$work/serve.addr"
serve=$(cat "$work/serve.addr")
echo "It listens at $serve."

step "Fetch nginx from there by tag and by digest, checking every byte"
echo "The witness is a small program that shares no code with sealer."
run fetch -platform "$platform" "http://$serve" library/nginx:latest | tee "$work/by-tag"
digest=$(sed -n 's/^image //p' "$work/by-tag")
run fetch -platform "$platform" "http://$serve" "library/nginx@$digest"
fetch -platform "$platform" "http://$upstream" docker.io/library/nginx:latest > "$work/original"
same "it is, byte for byte, what the upstream published" "$(blobs <"$work/original")" "$(blobs <"$work/by-tag")"
echo "And one of Kyverno's own images, by the name that the private registry gives it:"
run fetch -platform "$platform" "http://$serve" "$(grep -m 1 '^ghcr.io/' examples/kyverno/imageList | sed 's#^[^/]*/##')" | tail -n 1

cat <<EOF

Summary: $n steps, all as they should be.
  built      kubernetes-rawdocker, kubernetes-kyverno and my-nginx-kubernetes, each on top of the one before
  found      every image that their imageLists and manifests name, mirrored with bytes and digests unchanged
  pushed     to a registry and pulled into an empty store: the same digest, $pulled
  served     straight from that store, and fetched by tag and by digest, each byte checked
Nothing is left behind: the stores, the registries and their logs were in a temporary directory.
EOF
