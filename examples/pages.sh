#!/usr/bin/env bash
# Follow README.md and the pages about the far side word by word, in an empty
# home directory, without a network: the source is this repository, docker.io and
# the like are a registry on loopback, and registry.example is another one, which
# wants a password. "make pages" builds the programs and runs this as root.
#
# Commands that need machines of a cluster are left out here, each aloud: the
# scripts run-*, the stand-in machines and the real clusters run them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

if [ "${1:-}" != inside ]; then
  if [ "$(id -u)" != 0 ] || ! unshare -mn true 2>/dev/null; then
    [ -z "${SEALER_REQUIRE_TOOLS:-}" ] || { echo 'pages: root and namespaces are needed' >&2; exit 1; }
    echo 'pages: SKIPPED: root and namespaces are needed'
    exit 0
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) WORK=$work
  export GOCACHE GOMODCACHE WORK
  # One shell of its own namespaces: its mounts and processes end with it.
  unshare --mount --net --pid --fork --kill-child --mount-proc bash "$0" inside
  exit
fi

ip link set lo up
ip address add 10.0.0.5/32 dev lo
export HOME=$WORK/home CONTAINERS_REGISTRIES_CONF=$WORK/registries.conf XDG_RUNTIME_DIR=$WORK/run
export GOFLAGS=-mod=readonly GOPROXY=off TERM=dumb
unset SEALER_ROOT XDG_DATA_HOME XDG_CONFIG_HOME http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy || true
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" "$WORK/bin" "$WORK/store" "$WORK/containerd" "$WORK/over"
over() { # over DIR: what is written there is seen here alone
  mkdir -p "$1"
  mount -t tmpfs tmpfs "$WORK/over"
  mkdir "$WORK/over/upper" "$WORK/over/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$WORK/over/upper,workdir=$WORK/over/work" overlay "$1"
  umount -l "$WORK/over"
}
over /usr/local/bin
over /etc
mkdir -p /var/lib/sealer /media && mount --bind "$WORK/store" /var/lib/sealer && mount -t tmpfs tmpfs /media
printf '127.0.0.1 localhost registry.example\n' > /etc/hosts
printf '#!/bin/sh\nexec "$@"\n' > "$WORK/bin/sudo" && chmod +x "$WORK/bin/sudo"
export PATH=$WORK/bin:$PATH

# The world outside: this source, upstream registries, a registry with a password.
git config --global "url.$root.insteadOf" https://github.com/clusterimage/sealer
git config --global safe.directory '*'
bin/upstream -addr 127.0.0.1:5001 -any -registries-conf "$WORK/upstreams.conf" -ready-file "$WORK/upstream.addr" >/dev/null &
bin/upstream -addr 127.0.0.1:443 -empty -tls -user ci:secret -ready-file "$WORK/target.addr" >/dev/null &
for f in upstream target; do
  for _ in $(seq 100); do [ -s "$WORK/$f.addr" ] && break; sleep 0.1; done
  [ -s "$WORK/$f.addr" ] || { echo "pages: $f did not start" >&2; exit 1; }
done
{ cat "$WORK/upstreams.conf"; printf '\n[[registry]]\nlocation = "registry.example"\ninsecure = true\n'; } > "$CONTAINERS_REGISTRIES_CONF"

# The reader's own manifests and charts, and the stick.
mkdir -p /etc/sealer/registry # the package has it
mkdir -p "$HOME/deploy" "$HOME/charts/shop/templates" /media/stick
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: "nginx:1.27"}]}\n' > "$HOME/deploy/web.yaml"
printf 'apiVersion: v2\nname: shop\nversion: 1.0.0\n' > "$HOME/charts/shop/Chart.yaml"
printf 'image: quay.io/shop/app:v1\n' > "$HOME/charts/shop/values.yaml"
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: shop, image: "{{ .Values.image }}"}]}\n' > "$HOME/charts/shop/templates/pod.yaml"

# commands PAGE FROM TO: the shell commands between two headings of a page
commands() {
  awk -v from="$2" -v to="$3" '
    $0 == from { on = 1 }
    to != "" && $0 == to { exit }
    on && $0 == "```sh" { code = 1; next }
    $0 == "```" { if (code) print ""; code = 0 }
    code { print }' "$1"
}
# script: the commands of stdin as a script that stops at the first failure. What
# stays in the foreground is put into the background.
script() {
  echo 'set -e'
  while IFS= read -r line; do
    case "$line" in
      'sealer run '* | 'sealer check --proof'* | 'sealer delete '* | *systemctl* | 'scp '* | 'sh -ex start.sh' | 'sh /media/stick/install.sh'*)
        printf "echo 'pages: run elsewhere: %s'\n" "${line//\'/}" ;;
      'sealer registry serve '*)
        printf "echo '$ %s &'; { %s & }; for i in \$(seq 50); do [ -s ca.crt ] && break; sleep 0.1; done\n" "$line" "$line" ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
}
follow() { # follow DIRECTORY NAME: run the script on stdin, on a terminal whose user types name and password
  script > "$WORK/$2.sh"
  printf '\npages: %s\n' "$2"
  { printf 'ci\nsecret\n'; cat < /dev/null; } | (cd "$1" && timeout 300 script -qefc "bash -v $WORK/$2.sh" "$WORK/$2.log") ||
    { echo "pages: $2 FAILED at the command above" >&2; exit 1; }
}

commands "$root/README.md" '## Install' '## Beside other tools' | follow "$HOME" readme
cp "$HOME/sealer/my-app/my-app.tar" /media/stick/
(cd "$HOME/sealer/my-app" && sealer inventory -o site.inv)
commands "$root/docs/far-side.md" '## 1. Install sealer, load the image' '' | follow "$HOME" far-side
sed -i 's/1.36/1.35/' "$HOME/sealer/my-app/imageList"
(cd "$HOME/sealer/my-app" && commands "$root/docs/upgrade.md" '## Here' '' | follow "$PWD" upgrade)
echo 'pages: ok'
