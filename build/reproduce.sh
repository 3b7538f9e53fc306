#!/usr/bin/env bash
# The same context and the same upstream digests give the same image: it is
# built twice, from clones in different directories, with another umask, time
# zone, host name, user and number of processors, into different stores.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d /tmp/sealer-reproduce.XXXXXX)
upstream=
cleanup() {
	[ -z "$upstream" ] || kill "$upstream" 2>/dev/null || true
	chmod -R u+rwX "$work" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
chmod 0755 "$work"

"$top/bin/upstream" -registries-conf "$work/registries.conf" -ready-file "$work/ready" >"$work/upstream.log" 2>&1 &
upstream=$!
for _ in $(seq 100); do
	[ -s "$work/ready" ] && break
	sleep 0.1
done
chmod 0644 "$work/registries.conf"
export CONTAINERS_REGISTRIES_CONF=$work/registries.conf

# clone DIR UMASK makes a context, as a checkout with that umask would.
clone() {
	(
		umask "$2"
		mkdir -p "$1/bin" "$1/etc/deep/er" "$1/manifests"
		printf '#!/bin/sh\necho tool\n' >"$1/bin/tool"
		chmod u+x "$1/bin/tool"
		echo conf >"$1/etc/deep/er/conf"
		ln -s deep/er/conf "$1/etc/link"
		printf 'nginx\nregistry.k8s.io/pause:3.9\n' >"$1/imageList"
		cat >"$1/Kubefile" <<'EOF'
FROM scratch
ARG WHO=everyone
ENV GREETING=hello
COPY bin .
COPY etc .
COPY imageList manifests
RUN mkdir made && echo "$GREETING $WHO, $PWD, $(hostname), $(umask)" > made/by && chmod 0600 made/by
CMD bin/tool
EOF
	)
}

# built STORE CONTEXT prints the digest.
built() { "$top/bin/sealer" --root "$1" --progress none build -q -t reproduce:v1 "$2"; }

clone "$work/one" 022
first=$(cd / && TZ=UTC built "$work/store-one" "$work/one")
clone "$work/an other/place" 077
touch -d '2001-02-03 04:05:06' "$work/an other/place/etc/deep/er/conf"

other=(env TZ=Asia/Kathmandu LC_ALL=C.UTF-8 HOME="$work/home" GOMAXPROCS=1)
mkdir -m 0777 "$work/home" "$work/theirs"
as="the same user"
if [ "$(id -u)" = 0 ] && command -v unshare >/dev/null && command -v setpriv >/dev/null; then
	as="another user, in namespaces of its own"
	chown -R 65534:65534 "$work/an other"
	other=(unshare --uts --ipc -- sh -c 'hostname elsewhere; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"' sh "${other[@]}")
fi
second=$(umask 077 && cd "$work/home" && "${other[@]}" "$top/bin/sealer" --root "$work/theirs/store" --progress none build -q -t reproduce:v1 "$work/an other/place")

echo "first:  $first"
echo "second: $second (umask 077, Kathmandu, one processor, $as)"
if [ "$first" != "$second" ]; then
	echo "The builds differ." >&2
	"$top/bin/sealer" --root "$work/store-one" inspect reproduce:v1 >"$work/a" || true
	"$top/bin/sealer" --root "$work/theirs/store" inspect reproduce:v1 >"$work/b" || true
	diff "$work/a" "$work/b" >&2 || true
	exit 1
fi
echo "The builds are equal."
