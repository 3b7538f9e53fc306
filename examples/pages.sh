#!/usr/bin/env bash
# Follow README.md and the pages of docs word by word, in an empty
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
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" "$WORK/bin" "$WORK/containerd" "$WORK/over"
over() { # over DIR: what is written there is seen here alone
  mkdir -p "$1"
  mount -t tmpfs tmpfs "$WORK/over"
  mkdir "$WORK/over/upper" "$WORK/over/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$WORK/over/upper,workdir=$WORK/over/work" overlay "$1"
  umount -l "$WORK/over"
}
over /usr/local/bin
over /etc
mount -t tmpfs tmpfs /var/lib
mkdir -p /media && mount -t tmpfs tmpfs /media
printf '127.0.0.1 localhost registry.example registry.example.com\n' > /etc/hosts
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
{ cat "$WORK/upstreams.conf"; printf '\n[[registry]]\nlocation = "%s"\ninsecure = true\n' registry.example registry.example.com; } > "$CONTAINERS_REGISTRIES_CONF"

# The reader's own manifests and charts, and the stick.
mkdir -p /etc/sealer/registry # the package has it
mkdir -p "$HOME/deploy" "$HOME/charts/shop/templates" /media/stick
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: "nginx:1.27"}]}\n' > "$HOME/deploy/web.yaml"
printf 'apiVersion: v2\nname: shop\nversion: 1.0.0\n' > "$HOME/charts/shop/Chart.yaml"
printf 'image: quay.io/shop/app:v1\n' > "$HOME/charts/shop/values.yaml"
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: shop, image: "{{ .Values.image }}"}]}\n' > "$HOME/charts/shop/templates/pod.yaml"

# commands PAGE [FROM [TO]]: the shell commands of a page, or between two of its headings
commands() {
  awk -v from="${2:-}" -v to="${3:-}" '
    from == "" || $0 == from { on = 1 }
    to != "" && $0 == to { exit }
    on && $0 == "```sh" { code = 1; next }
    $0 == "```" { if (code) print ""; code = 0 }
    code { print }' "$1"
}
# block PAGE LANGUAGE N: the Nth block of that language
block() { awk -v lang="\`\`\`$2" -v n="$3" '$0 == lang { on = ++i == n; next } $0 == "```" { on = 0 } on' "$1"; }
# script: the commands of stdin as a script that stops at the first failure. What
# stays in the foreground is put into the background. A comment may say which
# other exit code is right.
script() {
  echo 'set -e; served='
  while IFS= read -r line; do
    case "$line" in
      'sealer run '* | 'sealer check --proof'* | 'sealer delete '* | *systemctl* | 'scp '* | 'sh -ex start.sh' | 'sh /media/stick/install.sh'* | \
        'sealer init kyverno '* | *' my-base' | 'sealer report --cluster '* | *-delta.tar' # elsewhere')
        printf "echo 'pages: run elsewhere: %s'\n" "${line//\'/}" ;;
      'sealer registry serve '*)
        printf "[ -z \"\$served\" ] || { kill \$served; wait \$served || true; }\necho '$ %s &'; { %s & }; served=\$!\n" "$line" "$line"
        printf "for i in \$(seq 100); do curl -skf https://127.0.0.1:5000/healthz >/dev/null && break; sleep 0.1; done; [ \$i != 100 ]\n" ;;
      *'# '*'exit code 3'*) printf '{ %s\n} || [ $? = 3 ]\n' "$line" ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
}
follow() { # follow DIRECTORY NAME: run the script on stdin, on a terminal whose user types name and password
  script > "$WORK/$2.sh"
  echo "$2" >> "$WORK/followed"
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

# The other pages, with what each takes for granted: the application of
# docs/charts.md in three versions, keys, an API server, a kubectl that wants
# objects and does nothing with them.
docs=$root/docs apps=$HOME/pages
mkdir -p "$apps/my-app/values" "$apps/my-app/manifests" "$HOME/.kube" /mnt/usb
mount -t tmpfs tmpfs /mnt && mkdir /mnt/usb
cp -r "$HOME/charts" "$apps/my-app/"
echo 'replicas: 2' > "$apps/my-app/values/shop.yaml"
block "$docs/charts.md" dockerfile 1 > "$apps/my-app/Kubefile"
bin/api 127.0.0.1:16443 "$WORK" n1 >/dev/null &
for _ in $(seq 100); do [ -s "$WORK/admin.conf" ] && break; sleep 0.1; done
cp "$WORK/admin.conf" "$HOME/.kube/config"
# shellcheck disable=SC2016
printf '#!/bin/sh\ncase "$1" in apply) grep -q ^kind: ;; *) echo "kubectl $*" ;; esac\n' > "$WORK/bin/kubectl"
# shellcheck disable=SC2016
printf '#!/bin/sh\ncat "$2"/manifests/*.yaml\n' > "$WORK/bin/kustomize"
cp bin/age-keygen "$WORK/bin/"
chmod +x "$WORK/bin/kubectl" "$WORK/bin/kustomize"
commands "$docs/charts.md" | follow "$apps" charts

printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: api}\nspec: {containers: [{name: api, image: "quay.io/app/api:v1"}]}\n' > "$apps/my-app/manifests/api.yaml"
echo 'COPY manifests .' >> "$apps/my-app/Kubefile"
(
  cd "$apps/my-app"
  for v in 1 2 3; do
    echo "# $v" >> values/shop.yaml
    sed -i "s/api:v./api:v$v/" manifests/api.yaml
    sealer build -q -t "my-app:v$v" -t "base:v$v" . >/dev/null
  done
  sed -i 's/api:v./api:v1/' manifests/api.yaml
  cp "$HOME/.kube/config" FILE
  commands "$docs/discovery.md" | follow "$PWD" discovery
  rm FILE imageList
  openssl ecparam -name prime256v1 -genkey -noout -out cosign.key 2>/dev/null
  openssl ec -in cosign.key -pubout -out cosign.pub 2>/dev/null
  age-keygen -o key.txt 2>/dev/null
)
mkdir "$apps/carry"
mv "$apps"/my-app/{cosign.key,cosign.pub,key.txt} "$apps/carry"
cp -r "$apps"/my-app/* "$apps/carry"
commands "$docs/travel.md" | follow "$apps/carry" travel
printf 'secret' | sealer login -u ci --password-stdin registry.example.com >/dev/null
commands "$docs/push.md" | follow "$apps" push
commands "$docs/report.md" | follow "$apps" report
commands "$docs/redirect.md" | follow "$apps" redirect
(
  cd "$apps"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout tls.key -out tls.crt -subj /CN=registry -addext subjectAltName=DNS:registry 2>/dev/null
  # shellcheck disable=SC2016
  echo 'ci:$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e' > users
  commands "$docs/registry.md" | follow "$PWD" registry
  sealer save -o big.tar my-app:v1 >/dev/null
  commands "$docs/security.md" | follow "$PWD" security
  go mod init example.com/reader >/dev/null 2>&1
  export GOPRIVATE=github.com/clusterimage GOFLAGS=-mod=mod
  commands "$docs/library.md" | follow "$PWD" library
  mkdir -p "$HOME/.config/sealer"
  block "$docs/install.md" yaml 1 > "$HOME/.config/sealer/config.yaml"
  echo 'sealer info' | follow "$PWD" settings
  rm -r "$HOME/.config/sealer"
  printf secret > my-app/token
  commands "$docs/install.md" '## Completion' | follow "$PWD/my-app" install
)

# What has commands and is not above is run by others, or is not run: said aloud.
for page in "$docs"/*.md; do
  name=$(basename "$page" .md)
  grep -qx "$name" "$WORK/followed" && continue
  n=$(commands "$page" | grep -c . || true)
  [ "$n" = 0 ] || [ "$name" = reference ] || echo "pages: $n lines of $name.md are not run here: they want the machines of a cluster"
done
echo "pages: ok: $(tr '\n' ' ' < "$WORK/followed")"
