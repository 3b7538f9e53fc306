#!/bin/sh
# Starts the cluster.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/bin:$PATH kubeadm init --config etc/kubeadm.yml
