#!/usr/bin/env bash
# The same context gives the same image by this sealer and by the one of an
# earlier commit:
#
#	make reproduce BASE=COMMIT
#
# The earlier sealer is built in a worktree of its own. Three images are compared:
# plain files, a RUN that changes and deletes files, and an application with its
# container images. Where digests differ, the differing fields of the manifest and
# the config are printed. A change of the format stands in docs/format.md: a
# difference is a failure unless that page has changed since the commit, too.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
if ! base=$(git -C "$top" rev-parse --quiet --verify --short "$1^{commit}"); then
	echo "reproduce: SKIPPED the sealer of $1: this clone has no such commit"
	exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/sealer-reproduce.XXXXXX")
upstream=
cleanup() {
	[ -z "$upstream" ] || kill "$upstream" 2>/dev/null || true
	git -C "$top" worktree remove --force "$work/source" 2>/dev/null || true
	chmod -R u+rwX "$work" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

git -C "$top" worktree add -q --detach "$work/source" "$base"
(cd "$work/source" && "${GO:-go}" build -trimpath -o "$work/sealer" ./cmd/sealer)

"$top/bin/upstream" -registries-conf "$work/registries.conf" -ready-file "$work/ready" >"$work/upstream.log" 2>&1 &
upstream=$!
for _ in $(seq 100); do
	[ -s "$work/ready" ] && break
	sleep 0.1
done
export CONTAINERS_REGISTRIES_CONF=$work/registries.conf

# files: names in every order, modes, an empty directory, a link, a large file.
mkdir -p "$work/files/bin" "$work/files/etc/deep/er" "$work/files/etc/empty"
printf '#!/bin/sh\necho tool\n' >"$work/files/bin/tool"
chmod 0755 "$work/files/bin/tool"
echo conf >"$work/files/etc/deep/er/conf"
echo 'B' >"$work/files/etc/B.conf"
echo 'a' >"$work/files/etc/a.conf"
ln -s deep/er/conf "$work/files/etc/link"
seq 1000000 >"$work/files/bin/large"
cat >"$work/files/Kubefile" <<'KUBEFILE'
FROM scratch
ARG WHO=everyone
ENV GREETING=hello
LABEL purpose="compare two sealers"
COPY bin .
COPY etc .
CMD bin/tool
KUBEFILE

cp -r "$work/files" "$work/run"
cat >"$work/run/Kubefile" <<'KUBEFILE'
FROM scratch
COPY bin .
COPY etc .
RUN mkdir made && echo made > made/by && chmod 0600 made/by && rm -r etc/deep && echo changed > etc/a.conf
CMD bin/tool
KUBEFILE

mkdir -p "$work/application/manifests"
printf 'nginx\nregistry.k8s.io/pause:3.9\n' >"$work/application/imageList"
cat >"$work/application/manifests/web.yaml" <<'MANIFEST'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        image: nginx
MANIFEST
cat >"$work/application/Kubefile" <<'KUBEFILE'
FROM scratch
COPY manifests .
COPY imageList manifests
CMD kubectl apply -f manifests
KUBEFILE

# of SEALER IMAGE prints the digest. Each sealer has a store of its own.
of() { "$1" --root "$work/store-$2" --progress none build -q -t "$3:v1" "$work/$3"; }

# described SEALER STORE IMAGE DIGEST prints the manifest and the config, a field a line.
described() {
	"$1" --root "$work/store-$2" save "$3:v1" -o "$work/$2.tar" >/dev/null
	local manifest config
	manifest=$(tar -xOf "$work/$2.tar" "blobs/sha256/${4#sha256:}")
	config=$(sed -E 's/.*"config":\{[^}]*"digest":"sha256:([0-9a-f]+)".*/\1/' <<<"$manifest")
	{
		printf '%s\n' "$manifest"
		tar -xOf "$work/$2.tar" "blobs/sha256/$config"
	} | sed 's/[{,[]/&\n/g'
}

status=0
for name in files run application; do
	before=$(of "$work/sealer" before "$name")
	now=$(of "$top/bin/sealer" now "$name")
	if [ "$before" = "$now" ]; then
		printf '%s: equal: %s\n' "$name" "$now"
		continue
	fi
	status=1
	printf '%s: differs: %s by %s, %s now\n' "$name" "$before" "$base" "$now"
	described "$work/sealer" before "$name" "$before" >"$work/a"
	described "$top/bin/sealer" now "$name" "$now" >"$work/b"
	diff -U 2 "$work/a" "$work/b" || true
done
[ $status = 0 ] && exit 0
if git -C "$top" diff --quiet "$base" -- docs/format.md; then
	echo "The images differ, and docs/format.md has no word about it." >&2
	exit 1
fi
echo "docs/format.md has changed since $base: it says why the images differ."
