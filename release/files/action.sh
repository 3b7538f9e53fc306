#!/usr/bin/env bash
# The steps of action.yml, which gives the inputs in ACTION_*: install sealer, log
# in, build, verify, push. The digest goes to $GITHUB_OUTPUT.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${ACTION_FROM:-}" ]; then
  [ -n "${ACTION_KEY:-}" ] || { echo 'action: "from" needs "key": the public key that the release is signed by' >&2; exit 2; }
  sh "$ACTION_SOURCE/release/files/install.sh" --from "$ACTION_FROM" --key "$ACTION_KEY" --prefix "$work"
elif [ -x "$ACTION_SOURCE/bin/sealer" ]; then
  mkdir -p "$work/bin" && cp "$ACTION_SOURCE/bin/sealer" "$work/bin/sealer"
else
  make -C "$ACTION_SOURCE" build
  mkdir -p "$work/bin" && cp "$ACTION_SOURCE/bin/sealer" "$work/bin/sealer"
fi
sealer=$work/bin/sealer

if [ -n "${ACTION_USERNAME:-}" ]; then
  [ -n "${ACTION_REGISTRY:-}" ] || { echo 'action: "username" needs "registry"' >&2; exit 2; }
  # The credentials end with the job, and are in no file that another job reads.
  export REGISTRY_AUTH_FILE="$work/auth.json"
  printf '%s' "${ACTION_PASSWORD:-}" | "$sealer" login --username "$ACTION_USERNAME" --password-stdin "$ACTION_REGISTRY"
fi
unset ACTION_PASSWORD

build=(build -t "$ACTION_TAG")
[ -z "${ACTION_KUBEFILE:-}" ] || build+=(-f "$ACTION_KUBEFILE")
[ -z "${ACTION_PLATFORMS:-}" ] || build+=(--platform "$ACTION_PLATFORMS")
if [ -n "${ACTION_ARGUMENTS:-}" ]; then
  read -r -a more <<<"$ACTION_ARGUMENTS"
  build+=("${more[@]}")
fi
# -q prints the digest, nothing else; the progress is on stderr.
digest=$("$sealer" "${build[@]}" -q "${ACTION_CONTEXT:-.}")
"$sealer" verify "$ACTION_TAG"
[ "${ACTION_PUSH:-false}" != true ] || "$sealer" push "$ACTION_TAG"
echo "digest=$digest" >> "${GITHUB_OUTPUT:-/dev/stdout}"
