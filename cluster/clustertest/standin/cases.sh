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
  remember n1 n2 n20
  step "sealer run, 3 masters and 17 workers"
  seconds runs standin:v1 -m $lab_net.11-$lab_net.13 -n $lab_net.14-$lab_net.30
  echo "   sealer run took $took s: $(tail -n 1 "$LAB/run.log")"
  must "every machine is a node" test "$(cat "$LAB"/nodes/n*/var/log/kubeadm | grep -cE '^(init|join) --config')" = 20
  must "the start command ran once" test "$(cat "$LAB/nodes/n1/var/log/guest")" = "guest ran"
  step "The same command again"
  seconds runs standin:v1 -m $lab_net.11-$lab_net.13 -n $lab_net.14-$lab_net.30
  must "nothing was changed, in $took s" grep -q 'nothing was changed' "$LAB/run.log"
  step "sealer delete --all"
  seconds deletes
  echo "   sealer delete took $took s"
  untouched n1 n2 n20
}

case_shell() {
  machines 3
  echo "Image standin:v1; machines n1 ($lab_net.11), n2, n3; node_run, node_ssh, sealer"
  export -f node_run node_ssh node_ssh_in node_state node_up node_down node_kill node_pid node_ready
  bash --norc -i
}
