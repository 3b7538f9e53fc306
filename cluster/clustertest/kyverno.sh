#!/usr/bin/env bash
# Prints the directory with Kyverno's programs, static and for this machine, and
# its install manifest: install.yaml. They are of the version that the policy
# tests run, compiled from its module once (10 minutes where Go's build cache
# knows nothing of it) and kept in the cache of programs.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SEALER_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sealer-clustertest}
export CGO_ENABLED=0
cd "$here/../../redirect/policytest/v1136"
version=$(go list -m -f '{{.Version}}' github.com/kyverno/kyverno)
dir=$cache/kyverno-$version
mkdir -p "$dir"
go mod download github.com/kyverno/kyverno
source=$(go list -m -f '{{.Dir}}' github.com/kyverno/kyverno)
install -m 644 "$source/config/install-latest-testing.yaml" "$dir/install.yaml"
for p in kyverno kyverno-init background-controller cleanup-controller reports-controller; do
  [ ! -x "$dir/$p" ] || continue
  echo "kyverno: compiling $p" >&2
  nice go build -p "${BUILD_JOBS:-2}" -trimpath -ldflags '-s -w' -o "$dir/$p.tmp" "github.com/kyverno/kyverno/cmd/$p"
  mv "$dir/$p.tmp" "$dir/$p"
done
echo "$dir"
