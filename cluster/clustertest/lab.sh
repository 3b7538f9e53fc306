# Functions for a network of test machines on this one; sourced, not run.
#
# A lab is a set of namespaces (mount, network, process, host name, IPC) that
# ends with its first process: whatever happens, its mounts, its interfaces and
# every process of its nodes are gone then. What the kernel keeps outside of
# namespaces, the lab's cgroups, and its files are removed by lab_enter, which
# waits outside.
#
#   lab_enter SCRIPT ARG...   runs SCRIPT ARG... inside a new lab, with $LAB set
#   lab_begin                 the network: a bridge without a way out
#   node_up NAME IP [plain]   starts a machine, with systemd, or without; again:
#                             with the disk that it had
#   node_run NAME COMMAND...  runs a command on it
#   node_ssh NAME COMMAND...  the same, over SSH
#   node_down NAME            power off
#   node_kill NAME            power cut
#   node_wipe NAME            forgets its disk
#   node_state NAME           all that is not as on a fresh machine, a line each
#   left                      packets and DNS queries that wanted to leave
#
# $LAB is the directory of the lab; nodes lie in $LAB/nodes. $LAB_BIN has the
# programs of programs.sh.
# shellcheck shell=bash

lab_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_net=10.66.0

# lab_able says why no lab can be made here, if so; lab_able_plain asks for
# machines without systemd and containers alone.
lab_able() {
  lab_able_plain && lab_has runc containerd iptables conntrack xtables-nft-multi || return 1
  [ -x /lib/systemd/systemd ] || { echo "systemd is missing"; return 1; }
  [ -d /sys/fs/cgroup/memory ] && [ -d /sys/fs/cgroup/systemd ] || { echo "the machine has no cgroup v1 hierarchies, the only ones that test nodes know"; return 1; }
}

lab_able_plain() {
  [ "$(id -u)" = 0 ] || { echo "it needs root, for namespaces"; return 1; }
  lab_has unshare nsenter setpriv ip nft sshd ssh-keygen bc || return 1
  grep -qw overlay /proc/filesystems || { echo "the kernel has no overlayfs"; return 1; }
  [ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || { echo "the kernel has no br_netfilter"; return 1; }
}

lab_has() { # lab_has PROGRAM...: names the first that is missing
  local p
  for p; do
    command -v "$p" >/dev/null || { echo "$p is missing"; return 1; }
  done
}

lab_hierarchies() { # the cgroup v1 hierarchies: "DIRECTORY OPTIONS"
  awk '$(NF-2) == "cgroup" {
    n = split($NF, o, ","); opts = ""
    for (i = 1; i <= n; i++) if (o[i] != "rw" && o[i] != "ro") opts = opts (opts == "" ? "" : ",") o[i]
    print $5, opts ~ /^name=/ ? "none," opts : opts
  }' /proc/self/mountinfo
}

lab_enter() {
  local status=0 pid dir
  LAB=$(mktemp -d "${TMPDIR:-/tmp}/sealer-lab.XXXXXX")
  export LAB LAB_CGROUP=sealer-lab-$$
  # shellcheck disable=SC2064
  trap "kill -KILL \$lab_pid 2>/dev/null || true" INT TERM # unshare ignores TERM while its child lives
  unshare --mount --net --pid --uts --ipc --fork --kill-child=KILL --mount-proc "$@" <&0 & # a shell in the lab reads from here
  lab_pid=$!
  while :; do # a signal ends a wait early
    wait "$lab_pid" && status=0 || status=$?
    kill -0 "$lab_pid" 2>/dev/null || break
  done
  trap - INT TERM
  for dir in /sys/fs/cgroup/*/"$LAB_CGROUP"; do
    [ -d "$dir" ] || continue
    for pid in 1 2 3 4 5; do # processes that are still ending hold it
      find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep "0.$pid"
    done
  done
  chmod -R u+w "$LAB" 2>/dev/null || true
  rm -rf "$LAB"
  return "$status"
}

lab_begin() {
  mount -t tmpfs -o mode=755 tmpfs /run # "ip netns" keeps its names there
  mkdir -p "$LAB/nodes" "$LAB/ram" "$LAB/home/.ssh" /run/netns
  mount -t tmpfs tmpfs "$LAB/ram"
  chmod 700 "$LAB/home/.ssh"
  export HOME=$LAB/home
  ssh-keygen -q -t ed25519 -N '' -C lab -f "$HOME/.ssh/id_ed25519"
  printf '127.0.0.1 localhost\n' > "$LAB/hosts"
  mount --bind "$LAB/hosts" /etc/hosts
  printf 'nameserver %s.1\n' $lab_net > "$LAB/resolv.conf"
  [ ! -e /etc/resolv.conf ] || mount --bind "$LAB/resolv.conf" "$(readlink -f /etc/resolv.conf)"
  ip link set lo up
  ip link add br0 type bridge
  ip addr add $lab_net.1/24 dev br0
  ip link set br0 up
  local f
  for f in iptables ip6tables arptables; do echo 0 > "/proc/sys/net/bridge/bridge-nf-call-$f"; done
  # What goes from node to node never meets these rules. What has another
  # address is sent to the gateway, which is here, and goes nowhere.
  nft -f - <<NFT
table inet witness {
  counter outside {}
  counter dns {}
  set addresses { type ipv4_addr; flags dynamic; size 4096; }
  chain arrives {
    type filter hook prerouting priority raw;
    iifname != "br0" return
    ip daddr $lab_net.1 return
    meta l4proto { tcp, udp } th dport 53 counter name dns
    ip daddr { $lab_net.255, 224.0.0.0/4, 255.255.255.255 } return
    ip6 daddr { fe80::/10, ff00::/8 } return
    counter name outside
    add @addresses { ip daddr }
  }
}
NFT
  "$LAB_BIN/resolver" $lab_net.1:53 "$LAB/questions" >"$LAB/resolver.log" 2>&1 &
}

# left prints "PACKETS DNS-QUERIES ADDRESSES..." and the names that the network's
# own resolver was asked for, but CoreDNS's look for a loop (type 255 or 13, a
# random name).
left() {
  local packets dns
  packets=$(nft -j list counter inet witness outside | grep -o '"packets": [0-9]*' | grep -o '[0-9]*')
  dns=$(nft -j list counter inet witness dns | grep -o '"packets": [0-9]*' | grep -o '[0-9]*')
  echo "$packets $dns" "$(nft list set inet witness addresses | grep -oE '[0-9]+(\.[0-9]+){3}' | sort -u | tr '\n' ' ')"
  [ ! -s "$LAB/questions" ] || awk '$2 != 13 && $2 != 255' "$LAB/questions" | sort | uniq -c
}

node_cgroups() { # node_cgroups NAME: makes a group in every hierarchy and enters it
  local dir rest parent group
  lab_hierarchies | while read -r dir rest; do
    parent=$dir
    for group in "$LAB_CGROUP" "$1"; do
      mkdir -p "$parent/$group"
      if [ -e "$parent/$group/cpuset.cpus" ]; then # empty ones take no process
        cat "$parent/cpuset.cpus" > "$parent/$group/cpuset.cpus"
        cat "$parent/cpuset.mems" > "$parent/$group/cpuset.mems"
      fi
      parent=$parent/$group
    done
    echo $$ > "$parent/cgroup.procs"
  done
}

node_up() {
  local name=$1 ip=$2 kind=${3:-systemd} dir=$LAB/nodes/$1 i
  if [ ! -d "$dir" ]; then
    mkdir -p "$dir"/{root,var} "$LAB/ram/$name"/{upper,work}
    echo "$kind" > "$dir/kind"
    echo "$ip" > "$dir/ip"
    ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$dir/hostkey"
    echo "$ip $(cut -d ' ' -f 1,2 "$dir/hostkey.pub")" >> "$HOME/.ssh/known_hosts"
  fi
  kind=$(cat "$dir/kind") ip=$(cat "$dir/ip")
  ip netns add "$name"
  ip link add "v-$name" type veth peer name eth0 netns "$name"
  ip link set "v-$name" master br0 up
  ip -n "$name" link set lo up
  ip -n "$name" addr add "$ip/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" route add default via $lab_net.1
  (
    node_cgroups "$name"
    exec nsenter --net="/run/netns/$name" unshare --mount --uts --ipc --pid --cgroup --fork --kill-child=KILL \
      bash "$lab_here/node.sh" "$dir" "$LAB/ram/$name" </dev/null >"$dir/console.log" 2>&1
  ) &
  echo $! > "$dir/unshare"
  for ((i = 0; i < 400; i++)); do
    if node_pid "$name" && node_ready "$name" "$kind" 2>/dev/null; then return 0; fi
    kill -0 "$(cat "$dir/unshare")" 2>/dev/null || break
    sleep 0.1
  done
  echo "node $name does not come up:" >&2
  tail "$dir/console.log" >&2
  return 1
}

# node_pid finds the first process of a node, as the lab numbers it.
node_pid() {
  [ -s "$LAB/nodes/$1/pid" ] && [ -d "/proc/$(cat "$LAB/nodes/$1/pid")" ] && return
  local p
  p=$(cat "/proc/$(cat "$LAB/nodes/$1/unshare")/task/"*/children 2>/dev/null | awk '{print $1; exit}')
  [ -n "$p" ] && echo "$p" > "$LAB/nodes/$1/pid"
}

node_ready() { # node_ready NAME KIND
  node_run "$1" test -e /run/booted || return 1
  if [ "$2" = plain ]; then
    node_run "$1" test -e /run/sshd.pid
  else
    case $(node_run "$1" systemctl is-system-running 2>/dev/null) in running | degraded) ;; *) return 1 ;; esac
  fi
}

node_ssh() { node_ssh_in "$@" </dev/null; }

# node_ssh_in does it with stdin. ssh would look for keys in the home directory
# of the password file, which is not the lab's.
node_ssh_in() {
  local ip
  ip=$(cat "$LAB/nodes/$1/ip")
  shift
  ssh -F none -i "$HOME/.ssh/id_ed25519" -o "UserKnownHostsFile=$HOME/.ssh/known_hosts" -o BatchMode=yes "root@$ip" "$@"
}

node_run() {
  local name=$1
  shift
  nsenter --target "$(cat "$LAB/nodes/$name/pid")" --mount --uts --ipc --net --pid --cgroup --root --wdns=/ \
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

node_kill() {
  local dir=$LAB/nodes/$1 p
  p=$(cat "$dir/pid" 2>/dev/null) || return 0
  kill -KILL "$p" 2>/dev/null || true
  wait "$(cat "$dir/unshare")" 2>/dev/null || true
  rm -f "$dir/pid" "$dir/unshare"
  ip link del "v-$1" # the kernel would, some time after its other end
  ip netns del "$1"
}

node_down() {
  local dir=$LAB/nodes/$1 i
  if [ "$(cat "$dir/kind")" = systemd ]; then # SIGRTMIN+4 is "poweroff" (systemd(1))
    kill -s RTMIN+4 "$(cat "$dir/pid")" 2>/dev/null || true
    for ((i = 0; i < 200; i++)); do
      [ -d "/proc/$(cat "$dir/pid")" ] || break
      sleep 0.1
    done
  fi
  node_kill "$1"
}

node_wipe() { rm -rf "$LAB/nodes/$1" "$LAB/ram/$1"; }

# node_state prints how the node differs from a fresh machine: files by what they
# are, against the machine under its disk; its units, mounts, parameters, rules,
# links, routes, processes.
node_state() {
  local name=$1 upper=$LAB/ram/$1/upper var=$LAB/nodes/$1/var p
  (cd "$upper" && find . -mindepth 1 ! -path './run/*' ! -path './tmp/*' | LC_ALL=C sort) | while IFS= read -r p; do
    p=${p#.}
    if [ -c "$upper$p" ]; then
      echo "file $p gone"
    elif [ -h "$upper$p" ]; then
      [ "$(readlink "$upper$p")" = "$(readlink "$p")" ] || echo "file $p -> $(readlink "$upper$p")"
    elif [ -d "$upper$p" ]; then
      [ -d "$p" ] && [ "$(stat -c '%a %u %g' "$upper$p")" = "$(stat -c '%a %u %g' "$p")" ] || echo "file $p/ $(stat -c '%a %u %g' "$upper$p")"
    else
      [ -f "$p" ] && [ "$(stat -c '%a %u %g' "$upper$p")" = "$(stat -c '%a %u %g' "$p")" ] && cmp -s "$upper$p" "$p" && continue
      echo "file $p $(stat -c '%a %u %g' "$upper$p") $(sha256sum < "$upper$p")"
    fi
  done
  (cd "$var" && find . -mindepth 1 ! -path './log/journal*' ! -path ./log/wtmp ! -path ./log/btmp ! -path ./log/lastlog ! -path ./log/private ! -path './lib/systemd/*' ! -path './cache/ldconfig*' ! -path './tmp/systemd-*' ! -path './lib/private*' \
    \( -type f -exec sh -c 'for f; do echo "file /var${f#.} $(stat -c "%a %u %g" "$f") $(sha256sum < "$f")"; done' - {} + -o -printf 'file /var/%P %y %m %U %G %l\n' \)) | LC_ALL=C sort
  node_run "$name" sh -c '
    for d in /run/*; do case $d in /run/systemd | /run/dbus | /run/user | /run/utmp | /run/log | /run/lock | /run/sysctl | /run/sshd* | /run/booted | /run/udev) ;; *) echo "run $d" ;; esac; done
    if [ "$(cat /proc/1/comm)" = systemd ]; then
      systemctl list-unit-files --no-legend --no-pager | awk "{print \"unit\", \$1, \$2}"
      systemctl list-units --type=service --no-legend --no-pager --plain --state=active | awk "\$1 !~ /^systemd-|^user/ {print \"active\", \$1}"
    fi
    awk "{print \"mount\", \$5, \$(NF-2)}" /proc/self/mountinfo | grep -v "/run/credentials\|/run/user\|/proc/sys/fs/binfmt_misc"
    sysctl -a 2>/dev/null | grep -E "^(net|vm|kernel)\." | grep -vE "random|_max_age|ns_last_pid|nf_conntrack_count|neigh|ipfrag|pty.nr|hung_task|tcp_(mem|available|allowed)|udp_mem|stat_refresh|numa|compact|lowmem|cad_pid|sched_domain|conf\.(v|eth0|all|default|lo)[^.]*\.(mc_|stable)|nf_log|hostname" | sed "s/^/sysctl /"
    { iptables-save; ip6tables-save; nft list ruleset; } 2>/dev/null | grep -v "^#" | sed "s/\[[0-9:]*\]//; s/packets [0-9]* bytes [0-9]*//; s/^/rule /"
    ip -o link | sed "s/^[0-9]*: //; s/@.*//; s/:.*//; s/^/link /"
    ip route | sed "s/^/route /"
    ps -e -o comm= | grep -vE "^(systemd|\(sd-pam\)|dbus|sshd|pause|ps|sh|sort|grep|sed|awk|agetty|kworker|sftp-server)" | sed "s/^/process /"
    hostname | sed "s/^/hostname /"
  ' | LC_ALL=C sort
}
