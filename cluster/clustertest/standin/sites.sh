# Machines that are not as those of our own, and what operators do to a cluster:
# it works, or a fault says why before the first change. Sourced by run, inside a
# lab in which the image is built.
# shellcheck shell=bash disable=SC2154

# works ARG...: sealer run with ARG..., then a delete that leaves no difference.
works() {
  runs standin:v1 "$@" || fail "sealer run $*"
  deletes
  forget_logs
  untouched "${all[@]}"
}
forget_logs() { for n in "${all[@]}"; do node_run "$n" rm -f /var/log/kubeadm /var/log/guest; done; }
reload_sshd() { node_run "$1" sh -c 'kill -HUP "$(cat /run/sshd.pid)"'; }

# says WORDS COMMAND...: a command that fails with a text that has WORDS.
says() {
  local words=$1
  shift
  if "$@" >"$LAB/says.log" 2>&1 </dev/null; then cat "$LAB/says.log"; fail "$* fails"; fi
  must "$(grep -E -m 1 -- "$words" "$LAB/says.log" || echo "a fault that says: $words")" grep -qE -- "$words" "$LAB/says.log"
}

case_sites() {
  local all=(n1 n2 n3) where=(-m "$lab_net.11" -n "$lab_net.12,$lab_net.13") key=(--pk "$HOME/.ssh/id_ed25519") n
  step "Three machines"
  machines 3
  remember "${all[@]}"
  sites_addresses
  sites_logins
  sites_programs
  sites_roles
  sites_operators
  sites_ends
}

sites_addresses() {
  step "Addresses"
  refused "$lab_net.11 stands twice in hosts" standin:v1 -m "$lab_net.11,::ffff:$lab_net.11" "${key[@]}"
  refused "$lab_net.11 stands twice in hosts" standin:v1 -m "$lab_net.11,$lab_net.11:22" "${key[@]}"
  refused "is no address" standin:v1 -m "0$lab_net.11" "${key[@]}"
  ip -n n1 addr add $lab_net.61/24 dev eth0
  sed -n "s/^$lab_net.11 /$lab_net.61 /p" "$HOME/.ssh/known_hosts" >> "$HOME/.ssh/known_hosts"
  remember n1
  refused "its address $lab_net.61 is on $lab_net.11, too" standin:v1 -m $lab_net.11 -n $lab_net.61 "${key[@]}" $skip
  ip -n n1 addr del $lab_net.61/24 dev eth0
  ip addr add fd00:66::1/64 dev br0 nodad
  for n in 1 2; do
    ip -n n$n addr add fd00:66::1$n/64 dev eth0 nodad
    sed -n "s/^$lab_net.1$n /fd00:66::1$n /p" "$HOME/.ssh/known_hosts" >> "$HOME/.ssh/known_hosts"
  done
  remember n1 n2
  refused "cidr: fd00:66::11: .*10.96.0.0/12 are of different families" standin:v1 -m fd00:66::11 -n fd00:66::12 "${key[@]}" $skip
  cat > "$LAB/six" <<FILE
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
networking: {podSubnet: "fd00:244::/56", serviceSubnet: "fd00:96::/112"}
FILE
  works -m fd00:66::11 -n fd00:66::12 -f "$LAB/six"
  for n in 1 2; do ip -n n$n addr del fd00:66::1$n/64 dev eth0; done
  remember n1 n2
}

sites_logins() {
  local config=/etc/ssh/sshd_config.d/10-lab.conf
  step "Logins"
  node_run n1 sed -i 's/MaxSessions 100/MaxSessions 1/' $config
  reload_sshd n1
  remember n1
  works "${where[@]}"
  node_run n1 sed -i 's/MaxSessions 1$/MaxSessions 100/' $config
  reload_sshd n1
  node_run n2 sh -c 'echo "echo WELCOME" > /root/.bashrc'
  remember n1 n2
  refused 'the session began with "WELCOME": nothing may print before it; .*.bashrc' standin:v1 "${where[@]}" "${key[@]}" $skip
  node_run n2 rm /root/.bashrc
  remember n2
  node_run n3 useradd -m -s /usr/sbin/nologin ops
  # the characters that shells and sudo take for something else
  local secret="p\$ w\"o'rd:\\#%é"
  printf 'ops:%s\n' "$secret" | node_run n3 chpasswd
  remember n3
  export SEALER_SSH_PASSWORD=$secret
  refused 'user ops can run no command there, give it a login shell: This account is currently not available' standin:v1 -m $lab_net.13 -u ops $skip
  node_run n3 usermod -s /bin/sh ops
  if node_run n3 test -d /etc/sudoers.d; then
    node_run n3 sh -c 'printf "Defaults requiretty\nDefaults lecture=always\nops ALL=(ALL) ALL\n" > /etc/sudoers.d/ops && chmod 440 /etc/sudoers.d/ops'
    remember n3
    refused "user ops cannot become root: sudo: .*tty" standin:v1 -m $lab_net.13 -u ops $skip
    node_run n3 sed -i /requiretty/d /etc/sudoers.d/ops
    remember n3
    runs standin:v1 -m $lab_net.13 -u ops || fail "sealer run by sudo with a password"
    must "the password is in no report, file or process" sh -c "! grep -rqF 'w\"o' '$LAB/run.log' '$LAB/store/clusters' '$LAB/nodes/n3/var/lib/sealer/data'"
    deletes
    forget_logs
    node_run n3 rm -rf /var/lib/sudo # whom sudo has told its rules
    untouched n3
  else
    echo "   SKIPPED: sudo is not installed here"
  fi
  unset SEALER_SSH_PASSWORD
}

sites_programs() {
  step "Machines that lack programs, and one whose name has capitals"
  # where a file system is not to run programs, none is run
  node_run n1 sh -c 'mount -o remount,noexec /tmp; for p in tar gzip curl; do for d in /usr/bin /usr/sbin; do [ ! -e $d/$p ] || mount --bind /dev/null $d/$p; done; done'
  node_run n2 hostname N2
  remember n1 n2
  works "${where[@]}"
  node_run n1 sh -c 'mount -o remount,exec /tmp; for p in tar gzip curl; do for d in /usr/bin /usr/sbin; do umount $d/$p 2>/dev/null || true; done; done'
  node_run n2 hostname n2
  node_run n3 sh -c 'mkdir -p /var/lib/sealer && mount -t tmpfs -o noexec tmpfs /var/lib/sealer'
  remember n1 n2 n3
  refused "exit status 126: .*: is its file system mounted noexec" standin:v1 "${where[@]}" "${key[@]}" $skip
  node_run n3 sh -c 'umount /var/lib/sealer && rmdir /var/lib/sealer'
  remember n3
}

sites_roles() {
  local two=(-m "$lab_net.11" -n "$lab_net.12")
  step "A Clusterfile that is not the cluster's"
  runs standin:v1 "${two[@]}" || fail "sealer run"
  says "$lab_net.12 is a worker of cluster my-cluster: its part changes by sealer delete -n" sealer run standin:v1 -m $lab_net.11,$lab_net.12 "${key[@]}" --yes $skip
  says "$lab_net.11 is the first master of cluster my-cluster: list it before $lab_net.13" sealer run standin:v1 -m $lab_net.13,$lab_net.11 -n $lab_net.12 "${key[@]}" --yes $skip
  says "$lab_net.12 is a node of cluster my-cluster, whose first master is not listed" sealer run standin:v1 -m $lab_net.13 -n $lab_net.12 "${key[@]}" --yes $skip
  must "no second cluster was made" sh -c "! [ -e '$LAB/nodes/n3/var/log/kubeadm' ]"
  untouched n3
  says "machines that are not listed: $lab_net.12" sealer run standin:v1 -m $lab_net.11 "${key[@]}" --yes $skip
  says "$lab_net.12 is in cluster my-cluster already, with the other role" sealer join -m $lab_net.12 "${key[@]}" --yes $skip
  step "Machines come, some of them for the second time, and leave, the last worker, too"
  sealer join -n $lab_net.12,$lab_net.13 "${key[@]}" --yes --no-proof $skip >"$LAB/run.log" 2>&1 || { tail "$LAB/run.log"; fail "sealer join"; }
  sealer delete -n $lab_net.12,$lab_net.13 --yes >"$LAB/delete.log" 2>&1 || { tail "$LAB/delete.log"; fail "all workers leave"; }
  node_run n2 rm -f /var/log/kubeadm
  node_run n3 rm -f /var/log/kubeadm
  untouched n2 n3
  sealer join -m $lab_net.13 "${key[@]}" --yes --no-proof $skip >"$LAB/run.log" 2>&1 || { tail "$LAB/run.log"; fail "a second master joins the only one"; }
  must "the first master knows it" knows n1 $lab_net.13
  deletes
  forget_logs
  untouched "${all[@]}"
}

# waits SECONDS: n1 runs a sleep of so many seconds.
waits() { node_run n1 ps -e -o args= | grep -q "^sleep $1"; }

sites_operators() {
  local pid status n
  step "A start command that hangs: Ctrl-C, once and twice"
  for n in 1 2; do
    sealer run standin:v1 "${where[@]}" "${key[@]}" --kubeconfig "$LAB/kubeconfig" --no-proof --yes $skip --cmds "trap '' INT TERM; sleep 100$n" >"$LAB/hang.log" 2>&1 &
    pid=$!
    eventually "the command runs" waits 100$n
    kill -INT $pid
    [ $n = 1 ] || { sleep 0.3; kill -INT $pid 2>/dev/null || true; }
    status=0
    wait $pid || status=$?
    must "the exit code is 130" test $status = 130
    must "and how to go on is told" grep -q 'run the same command again to go on' "$LAB/hang.log"
  done
  runs standin:v1 "${where[@]}" || fail "the same command goes on"
  must "nothing hangs on the machine" sh -c "! $(declare -f node_run); ! node_run n1 ps -e -o args= | grep -q '^sleep 100[12]'"
  step "Another operator's machine, with the same image and machines"
  cp -r "$SEALER_ROOT" "$LAB/other"
  rm -rf "$LAB/other/clusters"
  SEALER_ROOT=$LAB/other runs standin:v1 "${where[@]}" || fail "another machine's run"
  must "nothing was changed" grep -q 'nothing was changed' "$LAB/run.log"
  step "A changed Config"
  cat > "$LAB/config" <<FILE
apiVersion: sealer.io/v1
kind: Config
metadata: {name: c}
spec: {path: etc/my.conf, data: "one\n"}
FILE
  runs standin:v1 "${where[@]}" -f "$LAB/config" || fail "a Config comes"
  sed -i 's/one/two/' "$LAB/config"
  runs standin:v1 "${where[@]}" -f "$LAB/config" || fail "a Config changes"
  must "it is on a worker" node_run n2 grep -q two /var/lib/sealer/data/my-cluster/rootfs/current/etc/my.conf
  deletes
  forget_logs
  untouched "${all[@]}"
}

sites_ends() {
  local status=0
  step "delete --all --force, while a machine does not answer"
  runs standin:v1 "${where[@]}" || fail "sealer run"
  node_kill n2
  says "connect $lab_net.12" sealer delete --all --yes
  sealer delete --all --yes --force >"$LAB/delete.log" 2>&1 || status=$?
  must "the exit code is 3, and the machine is named" sh -c "[ $status = 3 ] && grep -q 'did not answer, and nothing was put back there: connect $lab_net.12' '$LAB/delete.log'"
  node_run n1 rm -f /var/log/kubeadm /var/log/guest
  node_run n3 rm -f /var/log/kubeadm
  untouched n1 n3
  node_up n2 0
  sealer delete --all --yes --force >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "the machine is back"; }
  node_run n2 rm -f /var/log/kubeadm
  untouched "${all[@]}"
  must "the cluster is forgotten" sh -c "! ls -d '$SEALER_ROOT'/clusters/* 2>/dev/null"
  step "A machine leaves before there is a cluster"
  variant
  echo 'exit 5' > "$LAB/variant/scripts/containerd.sh"
  sealer build -q --scan=sealer -t broken:v1 "$LAB/variant" >/dev/null
  says 'containerd.sh: run /bin/sh: exit status 5' sealer run broken:v1 "${where[@]}" "${key[@]}" --yes --no-proof $skip
  sealer delete -n $lab_net.13 --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "it leaves"; }
  untouched n3
  deletes
  untouched "${all[@]}"
}
