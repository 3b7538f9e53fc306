# The cases of run; sourced inside a lab in which the image is built.
# shellcheck shell=bash disable=SC2154

machines() { # machines N: n1 ... nN, at the same time
  local i jobs=()
  for ((i = 1; i <= $1; i++)); do
    node_up "n$i" "$lab_net.$((10 + i))" plain &
    jobs+=($!)
  done
  wait "${jobs[@]}"
}

skip=--skip-check=cgroup,memory,cpus,disk,sysctl
# runs IMAGE ARG...: sealer run, with the lab's key; its report goes to a log.
runs() {
  sealer run "$@" --pk "$HOME/.ssh/id_ed25519" --kubeconfig "$LAB/kubeconfig" --no-proof --yes $skip >"$LAB/run.log" 2>&1 || { tail -n 40 "$LAB/run.log"; return 1; }
}
deletes() { sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }; }

# state NODE: the state without the log of the stand-ins.
state() { node_state "$1" | grep -vE '^file /var/log/(kubeadm|guest|faults)'; }
remember() { local n; for n; do state "$n" > "$LAB/$n.before"; done; }
untouched() {
  local n status=0
  for n; do
    state "$n" > "$LAB/$n.after"
    diff "$LAB/$n.before" "$LAB/$n.after" || { echo "   NOT SO: $n is as before: < before, > after" >&2; status=1; }
  done
  [ $status = 0 ] || exit 1
  echo "   ok: 0 differences on $# machines"
}

case_twenty() {
  step "20 machines"
  machines 20
  remember n1 n2 n3 n20
  step "sealer run, 3 masters and 17 workers"
  seconds runs standin:v1 -m $lab_net.11-$lab_net.13 -n $lab_net.14-$lab_net.30
  echo "   sealer run took $took s: $(tail -n 1 "$LAB/run.log")"
  must "every machine is a node" test "$(cat "$LAB"/nodes/n*/var/log/kubeadm | grep -cE '^(init|join) --config')" = 20
  must "the start command ran once" test "$(cat "$LAB/nodes/n1/var/log/guest")" = "guest ran"
  step "The same command again"
  seconds runs standin:v1 -m $lab_net.11-$lab_net.13 -n $lab_net.14-$lab_net.30
  must "nothing was changed, in $took s" grep -q 'nothing was changed' "$LAB/run.log"
  step "An application comes to the cluster"
  mkdir "$LAB/app"
  head -c 1M /dev/urandom > "$LAB/app/goods"
  printf 'FROM scratch\nCOPY goods etc\nCMD wc -c < etc/goods >> /var/log/guest\n' > "$LAB/app/Kubefile"
  sealer build -q --scan=off -t shop:v1 "$LAB/app" >/dev/null
  seconds sealer run shop:v1 --pk "$HOME/.ssh/id_ed25519" --no-proof --yes >"$LAB/app.log" 2>&1 || { tail -n 40 "$LAB/app.log"; fail "sealer run of an application"; }
  must "its files are on the first master, and its command ran, in $took s" test "$(tail -n 1 "$LAB/nodes/n1/var/log/guest")" = 1048576
  must "the image leaves the store here" sealer rmi shop:v1
  seconds runs standin:v1 -m $lab_net.11-$lab_net.13 -n $lab_net.14-$lab_net.30
  must "the same command fetches it back from a master, and changes nothing, in $took s" sh -c "grep -q 'image shop:v1 is not in the store of this machine' '$LAB/run.log' && grep -q 'nothing was changed' '$LAB/run.log'"
  must "it is whole" sealer verify shop:v1
  step "A master leaves"
  must "a worker knows it" knows n20 $lab_net.13
  seconds sealer delete -m $lab_net.13 --pk "$HOME/.ssh/id_ed25519" --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "a master leaves"; }
  echo "   sealer delete took $took s"
  untouched n3
  must "nobody knows it any more" sh -c "! grep -rqF $lab_net.13 '$LAB/ram/n1/upper/etc/hosts' '$LAB/ram/n20/upper/etc' '$LAB/nodes/n20/var/lib/sealer/data/my-cluster/masters'"
  step "sealer delete --all"
  seconds deletes
  echo "   sealer delete took $took s"
  untouched n1 n2 n20
}

knows() { grep -qF "$2" "$LAB/ram/$1/upper/etc/hosts" && grep -rqF "$2" "$LAB/ram/$1/upper/etc/containerd/certs.d"; }

# applied NODE...: what the state of the machines is made of, but for times, keys
# and certificates, which differ from run to run.
applied() {
  local n
  for n; do
    state "$n" | grep -vE 'pki/|/journal |/saved/|/lib/sealer/(lock|tmp/|image/index)|sealer-registry|\.log |\.pid |process |/rootfs/[0-9a-f]+/etc/(ca|admin)' | sed "s/^/$n /"
  done
}

# end_of_run NAME COMMAND...: the same command ends a run that was disturbed, by
# itself, and the machines are as after one that was not.
end_of_run() {
  local name=$1
  shift
  runs standin:v1 "${where[@]}" || fail "$name: the same command goes on"
  applied "${all[@]}" > "$LAB/state.now"
  diff "$LAB/state.whole" "$LAB/state.now" > "$LAB/state.diff" || { head -n 20 "$LAB/state.diff"; fail "$name: the machines are as after a run without it"; }
  for n in "${all[@]}"; do
    [ ! -s "$LAB/nodes/$n/var/log/faults" ] || { cat "$LAB/nodes/$n/var/log/faults"; fail "$name: no two kubeadm at once on $n"; }
    rm -f "$LAB/nodes/$n/var/log/"{faults,kubeadm,guest}
  done
  deletes
  untouched "${all[@]}" >/dev/null
  echo "   ok: $name: the same command ends in the same state, and delete leaves nothing"
}

# disturbed STEPS COMMAND...: begins a run, and after so many steps, or with
# "joins" when n4 begins to join, the command.
# The run is over when disturbed returns, whatever became of it.
disturbed() {
  local pid steps=$1
  shift
  sealer run standin:v1 "${where[@]}" --pk "$HOME/.ssh/id_ed25519" --kubeconfig "$LAB/kubeconfig" --no-proof --yes $skip --progress json >"$LAB/disturbed.log" 2>&1 &
  pid=$!
  until case $steps in
    joins) grep -q "\"begin\".*$lab_net.14.*kubeadm.join" "$LAB/disturbed.log" ;;
    *) [ "$(grep -c '"type":"done"' "$LAB/disturbed.log")" -ge "$steps" ] ;;
  esac; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
  done
  "$@" $pid
  wait $pid 2>/dev/null || true
}

engine_dies() { kill -KILL "$1" 2>/dev/null || true; }
# programs_die ENGINE: sealer on all machines at once, and here.
programs_die() {
  local n p
  for n in "${all[@]}"; do
    for p in $(node_run "$n" ps -e -o pid=,args= | awk '/sealer-[0-9a-f]+ .*node/ && !/supervise|balance|registry/ {print $1}'); do
      node_run "$n" kill -KILL "$p" 2>/dev/null || true
    done
  done
  engine_dies "$1"
}
machine_dies() { # machine_dies ENGINE: while the engine goes on, until it has given up
  node_kill n4
  wait "$1" 2>/dev/null || true
  node_up n4 "$lab_net.14"
}
machine_stays_away() { # machine_stays_away ENGINE: until the run has given up, and longer
  node_kill n4
  wait "$1" 2>/dev/null || true
}
machines_die() { # machines_die ENGINE: the power of three of five machines fails
  local n
  for n in n2 n4 n5; do node_kill $n; done
  engine_dies "$1"
  for n in n2 n4 n5; do node_up $n 0; done
}
cable_cut() { # cable_cut ENGINE: two machines are out of reach, until the run has given up
  ip link set v-n2 down
  ip link set v-n4 down
  wait "$1" 2>/dev/null || true
  ip link set v-n2 up
  ip link set v-n4 up
}

case_cut() {
  local where=(-m "$lab_net.11-$lab_net.12" -n "$lab_net.13-$lab_net.15") all=(n1 n2 n3 n4 n5) at n
  step "Five machines, and a run that nothing disturbs"
  machines 5
  remember "${all[@]}"
  seconds runs standin:v1 "${where[@]}"
  echo "   sealer run took $took s"
  applied "${all[@]}" > "$LAB/state.whole"
  must "the state that is compared is not empty" test "$(wc -l < "$LAB/state.whole")" -gt 100
  for n in "${all[@]}"; do rm -f "$LAB/nodes/$n/var/log/"{kubeadm,guest}; done
  deletes
  untouched "${all[@]}"
  step "A machine dies while it joins"
  disturbed joins machine_dies
  end_of_run "a machine dies while it joins"
  step "A machine dies while it joins, and stays away"
  disturbed joins machine_stays_away
  if sealer delete -n $lab_net.14 --yes >"$LAB/delete.log" 2>&1; then fail "a machine that does not answer keeps delete"; fi
  must "delete says how it leaves all the same" grep -q '^Nothing was changed.*sealer delete -n ADDRESS --force' "$LAB/delete.log"
  sealer delete -n $lab_net.14 --yes --force >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "it leaves without an answer"; }
  must "what is owed there is told" grep -q "^$lab_net.14 did not answer and has left as it is. When it is back: sealer delete -c my-cluster -n $lab_net.14" "$LAB/delete.log"
  must "nobody knows it any more" sh -c "! grep -rqF $lab_net.14 '$LAB/ram/n1/upper/etc/hosts' '$LAB/store/clusters/my-cluster/Clusterfile'"
  seconds runs standin:v1 -m "$lab_net.11-$lab_net.12" -n "$lab_net.13,$lab_net.15"
  must "the cluster goes on without it" grep -qE 'nothing was changed|^Cluster my-cluster runs' "$LAB/run.log"
  node_up n4 "$lab_net.14"
  if sealer delete -n $lab_net.16 --yes >"$LAB/delete.log" 2>&1; then fail "a machine that was never in the cluster is no such machine"; fi
  sealer delete -n $lab_net.14 --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "it is back, and is put back"; }
  rm -f "$LAB/nodes/n4/var/log/"{kubeadm,guest}
  untouched n4
  deletes
  untouched "${all[@]}"
  for n in "${all[@]}"; do rm -f "$LAB/nodes/$n/var/log/"{kubeadm,guest}; done
  for at in ${STEPS-2 15 30 45 60 75}; do
    step "After $at steps"
    disturbed "$at" engine_dies
    end_of_run "sealer dies"
    disturbed "$at" programs_die
    end_of_run "sealer dies everywhere"
    disturbed "$at" machines_die
    end_of_run "three machines lose their power"
    disturbed "$at" cable_cut
    end_of_run "the cable of two machines is cut"
  done
  step "A full disk"
  mkdir -p "$LAB/nodes/n3/var/lib/sealer"
  # room for sealer itself, and for half of the image
  node_run n3 mount -t tmpfs -o "size=$(($(stat -c %s "$(command -v sealer)") + (600 << 10)))" tmpfs /var/lib/sealer
  if runs standin:v1 "${where[@]}" >"$LAB/full.log" 2>&1; then fail "a run with a full disk fails"; fi
  must "the failure names the machine and the reason" grep -qE "$lab_net.13.*(no space left|free)" "$LAB/run.log"
  node_run n3 umount -l /var/lib/sealer
  rm -rf "$LAB/nodes/n3/var/lib/sealer"
  end_of_run "the disk has room again"
}

case_shell() {
  machines 3
  echo "Image standin:v1; machines n1 ($lab_net.11), n2, n3; node_run, node_ssh, sealer"
  export -f node_run node_ssh node_ssh_in node_state node_up node_down node_kill node_pid node_ready
  bash --norc -i
}

# slow NODE...: 100 Mbit/s in each direction.
slow() {
  local n
  for n; do
    tc qdisc replace dev "v-$n" root tbf rate 100mbit burst 256kb latency 200ms
    ip netns exec "$n" tc qdisc replace dev eth0 root tbf rate 100mbit burst 256kb latency 200ms
  done
}
tx() { ip -s link show dev "$1" | awk 'tx {print $1; exit} /TX:/ {tx = 1}'; }
sent() { tx br0; }     # by this machine, to all others
got() { tx "v-$1"; }   # by a machine, from all others

# brought NODE: sealer lies on the machine, so that only the image is counted.
brought() {
  local dir=$LAB/nodes/$1/var/lib/sealer/bin
  mkdir -p "$dir"
  cp "$(command -v sealer)" "$dir/sealer-$(sha256sum < "$(command -v sealer)" | cut -c 1-16)"
}

# SIZE is the megabytes of the image; MODE=star is the way without spreading.
case_spread() {
  local size=${SIZE:-64} all from to one n copies
  step "20 machines with 100 Mbit/s, an image of $size MB"
  context "$size" "big:v1"
  machines 20
  # shellcheck disable=SC2046
  slow $(seq -f n%g 1 20)
  cat > "$LAB/Clusterfile" <<FILE
apiVersion: sealer.io/v2
kind: Cluster
metadata:
  name: my-cluster
spec:
  image: big:v1
  distribution: {mode: ${MODE:-auto}}
  hosts:
  - {ips: [$lab_net.11], roles: [master]}
  - {ips: [$lab_net.12-$lab_net.30], roles: [node]}
FILE
  for n in $(seq -f n%g 1 20); do brought "$n"; done
  from=$(sent) one=$(got n20)
  seconds applies
  to=$(sent)
  all=$((size << 20))
  copies=$(echo "scale=2; ($to - $from) / $all" | bc)
  echo "   sealer apply took $took s: $(tail -n 1 "$LAB/run.log")"
  echo "   this machine sent $(((to - from) / 1000)) kB to 20 machines: $copies copies of $((all / 1000)) kB; n20 got $((($(got n20) - one) / 1000)) kB"
  step "The same command again"
  from=$(sent)
  seconds applies --progress json
  echo "   it took $took s and sent $((($(sent) - from) / 1000)) kB in all: $(tail -n 1 "$LAB/run.log")"
  goal "second run of 20 machines on this one" "$took" 2 s
  goal "blobs that it sent" "$(grep -c '"type":"sent"' "$LAB/run.log" || true)" 0 ''
  step "One layer of 10 MB changed"
  mkdir "$LAB/change"
  head -c 10M /dev/urandom > "$LAB/change/file"
  printf 'FROM big:v1\nCOPY file etc\n' > "$LAB/change/Kubefile"
  sealer build -q --scan=off -t big:v2 "$LAB/change" >/dev/null
  sed -i 's/big:v1/big:v2/' "$LAB/Clusterfile"
  for n in n1 n20; do got "$n" > "$LAB/$n.got"; done
  seconds applies --progress json
  echo "   it took $took s: $(tail -n 1 "$LAB/run.log")"
  for n in n1 n20; do
    echo "   $n got $((($(got "$n") - $(cat "$LAB/$n.got")) / 1000)) kB, with all of TCP, SSH and TLS"
    goal "one layer of 10 MiB changed, of $size MiB: bytes of blobs to $n" "$(received "$lab_net.$((10 + ${n#n}))")" $(((10 << 20) + (64 << 10))) B
  done
  goal "copies of the image that the source sent to 20 machines at first" "$copies" 3 ''
  deletes
  step "Results"
  cat "$LAB/goals"
}

# received ADDRESS: the bytes of blobs that the last run brought to a machine
received() { grep '"type":"sent"' "$LAB/run.log" | grep -F "\"host\":\"$1\"" | grep -o '"bytes":[0-9]*' | awk -F : '{n += $2} END {print n + 0}'; }

applies() { # applies ARG...: sealer apply
  sealer apply "$@" -f "$LAB/Clusterfile" --pk "$HOME/.ssh/id_ed25519" --kubeconfig "$LAB/kubeconfig" --no-proof --yes $skip >"$LAB/run.log" 2>&1 || { tail -n 40 "$LAB/run.log"; return 1; }
}
