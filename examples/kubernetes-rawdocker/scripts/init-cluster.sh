#!/bin/sh
# Stand-in for the start of a cluster: a real base rootfs starts the registry
# and the control plane here.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=/dev/null
. ./etc/registry.conf
echo "init-cluster (stand-in): Kubernetes v1.19.8 would start here and pull from $REGISTRY"
PATH=$PWD/bin:$PATH kubeadm init --config etc/kubeadm.yml
