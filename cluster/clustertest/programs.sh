#!/usr/bin/env bash
# Prints the directory with the programs of a cluster, static and for this
# machine: hyper (kubeadm and the control plane), kubelet, kubectl, etcd,
# coredns, and the small ones of programs/.
#
#   programs.sh          the large ones from $SHARED/cluster/bin or the cache;
#                        exit code 75 when they are in neither
#   programs.sh -build   compiles what is missing (10 minutes on two cores)
#
# The cache is $SEALER_CLUSTER_CACHE, else sealer-clustertest in the user's
# cache directory. A program is built again when its module changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SEALER_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sealer-clustertest}
shared=$(cd "$here/../.." && cd "${SHARED:-../shared}" 2>/dev/null && pwd) || shared=
bin=$cache/bin
mkdir -p "$bin"
export CGO_ENABLED=0

large=(hyper kubelet kubectl etcd coredns)
version=$(sed -n 's/.*k8s.io\/kubernetes v/v/p' "$here/programs/kubernetes/go.mod")

# installed NAME KEY: whether the cache has NAME, made from what KEY stands for
installed() { [ -x "$bin/$1" ] && [ "$(cat "$bin/.$1" 2>/dev/null)" = "$2" ]; }

unpack() { # unpack NAME: out of the shared directory, if it is there and whole
  local from=$shared/cluster/bin want
  [ -n "$shared" ] && [ -f "$from/$1.xz" ] || return 1
  want=$(awk -v n="$1" '$2 == n {print $1}' "$from/SHA256SUMS")
  [ -n "$want" ] || return 1
  installed "$1" "shared $version $want" && return
  xz -dc "$from/$1.xz" > "$bin/$1.tmp"
  if [ "$(sha256sum < "$bin/$1.tmp" | cut -d ' ' -f 1)" != "$want" ]; then
    rm -f "$bin/$1.tmp"
    echo "programs: $from/$1.xz does not unpack to what SHA256SUMS says" >&2
    exit 1
  fi
  chmod +x "$bin/$1.tmp"
  mv "$bin/$1.tmp" "$bin/$1"
  echo "shared $version $want" > "$bin/.$1"
}

stamps() { # the linker's flags that tell Kubernetes its version
  local p v=${version#v}
  printf -- '-s -w'
  for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s -X %s.gitTreeState=clean' "$p" "$version" "$p" "$p" "$(cut -d . -f 2 <<< "$v")" "$p"
  done
}

compile() { # compile NAME KEY
  local module=kubernetes package=. flags='-s -w'
  case $1 in
    hyper) flags=$(stamps) ;;
    kubelet | kubectl) package=k8s.io/kubernetes/cmd/$1 flags=$(stamps) ;;
    etcd) module=etcd package=go.etcd.io/etcd/server/v3 ;;
    coredns) module=coredns ;;
  esac
  echo "programs: compiling $1" >&2
  (cd "$here/programs/$module" && nice go build -p "${BUILD_JOBS:-2}" -trimpath -ldflags "$flags" -o "$bin/$1.tmp" "$package")
  mv "$bin/$1.tmp" "$bin/$1"
  echo "$2" > "$bin/.$1"
}

# key NAME: what a compiled program is made of
key() {
  local module=kubernetes
  case $1 in etcd | coredns) module=$1 ;; esac
  cat "$here/programs/$module"/* "$here/programs.sh" | sha256sum | cut -d ' ' -f 1
}

missing=()
for p in "${large[@]}"; do
  unpack "$p" && continue
  k=$(key "$p")
  installed "$p" "$k" && continue
  [ ! -x "$bin/$p" ] || [[ $(cat "$bin/.$p" 2>/dev/null) != "shared $version "* ]] || continue # unpacked once
  if [ "${1:-}" = -build ]; then compile "$p" "$k"; else missing+=("$p"); fi
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "programs: not at hand: ${missing[*]}; $here/programs.sh -build compiles them" >&2
  exit 75
fi
cd "$here/../.."
go build -trimpath -ldflags '-s -w' -o "$bin/" ./cluster/clustertest/programs/{pause,web,podnet,resolver} ./cluster/clustertest/mkimages
echo "$bin"
