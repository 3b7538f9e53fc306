#!/usr/bin/env bash
# Makes what the BaseImage is built of, out of the programs of programs.sh and
# of Debian's containerd, runc, containernetworking-plugins and iptables:
#
#   images.sh upstream DIR   the images, in a directory for "upstream -dir"
#   images.sh context DIR    examples/kubernetes with bin, cni and network.yaml
#
# With LAB_KYVERNO, the directory of kyverno.sh, upstream has Kyverno's images, too.
# The upstream is kept in the cache while the programs stay: DIR is a link to it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${LAB_BIN:-$("$here/programs.sh")}
cache=$(dirname "$bin")
version=$(sed -n 's/.*k8s.io\/kubernetes v/v/p' "$here/programs/kubernetes/go.mod")
PATH=$PATH:/usr/sbin:/sbin

place() { # place PROGRAM DIR: a program of the cache, without a copy where that can be
  mkdir -p "$2"
  ln "$bin/$1" "$2/" 2>/dev/null || cp "$bin/$1" "$2/"
}

# libraries DIR: what the programs in DIR are linked to, at the same paths
libraries() {
  local file
  { find "$1" -type f -exec ldd {} + 2>/dev/null || true; } | # ldd fails at static files
    awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\/.*ld-linux/ {print $1}' | sort -u | while read -r file; do
    [ -e "$1$file" ] || install -D "$(readlink -f "$file")" "$1$file"
  done
}

# netfilter DIR: iptables and conntrack for kube-proxy. The iptables of the
# machine writes nftables' rules, under all of its names.
netfilter() {
  local name
  install -D "$(command -v xtables-nft-multi)" "$1/usr/sbin/xtables-nft-multi"
  install "$(command -v conntrack)" "$1/usr/sbin/"
  for name in ip{,6}tables{,-save,-restore}; do ln -s xtables-nft-multi "$1/usr/sbin/$name"; done
  mkdir -p "$1/usr/lib/x86_64-linux-gnu"
  cp -rL /usr/lib/x86_64-linux-gnu/xtables "$1/usr/lib/x86_64-linux-gnu/"
  install -D -m 644 /etc/protocols "$1/etc/protocols" 2>/dev/null || true
  libraries "$1"
}

upstream() {
  local name=upstream key layers
  [ -z "${LAB_KYVERNO:-}" ] || name=kyverno-upstream
  key=$name-$( (sha256sum "$bin"/* ${LAB_KYVERNO:+"$LAB_KYVERNO"/*}; cat "$here/images.sh"; dpkg-query -W iptables conntrack 2>/dev/null) | sha256sum | cut -c 1-16)
  if [ ! -e "$cache/$key/done" ]; then
    rm -rf "$cache/$name"-*
    layers=$cache/$key/layers
    for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do
      mkdir -p "$layers/kubernetes/usr/local/bin"
      ln -s hyper "$layers/kubernetes/usr/local/bin/$name"
    done
    place hyper "$layers/kubernetes/usr/local/bin"
    place etcd "$layers/etcd/usr/local/bin"
    place coredns "$layers/coredns"
    place pause "$layers/pause"
    place podnet "$layers/podnet"
    place web "$layers/web"
    netfilter "$layers/netfilter"
    {
      cat <<LIST
registry.k8s.io/kube-apiserver:$version $layers/kubernetes -- /usr/local/bin/kube-apiserver
registry.k8s.io/kube-controller-manager:$version $layers/kubernetes -- /usr/local/bin/kube-controller-manager
registry.k8s.io/kube-scheduler:$version $layers/kubernetes -- /usr/local/bin/kube-scheduler
registry.k8s.io/kube-proxy:$version $layers/netfilter $layers/kubernetes -- /usr/local/bin/kube-proxy
registry.k8s.io/etcd:3.5.24-0 $layers/etcd -- /usr/local/bin/etcd
registry.k8s.io/coredns/coredns:v1.12.0 $layers/coredns -- /coredns
registry.k8s.io/pause:3.10 $layers/pause -- /pause
docker.io/clustertest/podnet:v1 $layers/podnet -- /podnet
docker.io/library/nginx:latest $layers/web -- /web
docker.io/library/stranger:v1 $layers/web $layers/pause -- /web
quay.io/shop/shop:v1 $layers/web $layers/podnet -- /web
LIST
      kyverno "$layers"
    } | "$bin/mkimages" "$cache/$key/registry" >&2
    rm -rf "$layers"
    touch "$cache/$key/done"
  fi
  ln -sfn "$cache/$key/registry" "$1"
}

# kyverno LAYERS: the lines of Kyverno's images, of the user that its own have.
kyverno() {
  local p image tag
  [ -n "${LAB_KYVERNO:-}" ] || return 0
  tag=${LAB_KYVERNO##*kyverno-}
  for p in kyverno kyverno-init background-controller cleanup-controller reports-controller; do
    mkdir -p "$1/$p"
    ln "$LAB_KYVERNO/$p" "$1/$p/" 2>/dev/null || cp "$LAB_KYVERNO/$p" "$1/$p/"
    image=$p
    [ $p != kyverno-init ] || image=kyvernopre
    echo "ghcr.io/kyverno/$image:$tag user=65534 $1/$p -- /$p"
  done
}

context() {
  local p
  cp -r "$here/../../examples/kubernetes" "$1"
  # how full this machine's disk is, is no matter of the test machines
  sed -i '/^kind: KubeletConfiguration/a evictionHard: {nodefs.available: 100Mi, imagefs.available: 100Mi, memory.available: 50Mi}' "$1/etc/kubeadm.yml"
  mkdir -p "$1/bin" "$1/cni"
  place hyper "$1/bin"
  mv "$1/bin/hyper" "$1/bin/kubeadm"
  place kubelet "$1/bin"
  place kubectl "$1/bin"
  for p in containerd containerd-shim-runc-v2 ctr runc; do install "$(command -v "$p")" "$1/bin/"; done
  install /usr/lib/cni/{bridge,host-local,loopback,portmap} "$1/cni/"
  cp "$here/podnet.yaml" "$1/network.yaml"
}

case ${1:-} in
upstream | context) "$1" "$2" ;;
*) echo "usage: images.sh upstream|context DIR" >&2; exit 2 ;;
esac
