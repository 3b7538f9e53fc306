# kill -9 in the middle of runs on real machines; sourced by run.
# shellcheck shell=bash disable=SC2154

# MOMENTS are the points at which a run is disturbed: so many steps are done, or
# KIND+SECONDS after a step of that kind began. Each is tried with the death of
# the engine, of sealer on the machines, and of both.
MOMENTS=${MOMENTS:-3 20 32 kubeadm.init+1 kubeadm.init+6 kubeadm.join+1 guest+0}

# shape NODE: what a run makes of a machine, without what differs from run to run
# by its nature: keys, times, containers, and what Kubernetes itself keeps.
shape() {
  node_state "$1" | awk '$1 == "file" {print $1, $2; next} {print}' |
    grep -E '^(file /(etc|usr|opt)/|file /var/lib/sealer/data/|unit |active |hostname )' |
    grep -vE '/(journal|saved|units)(/| |$)|/var/lib/sealer/data/overlay2|/etc/(kubernetes/tmp|resolv|mtab|ld.so.cache)' | sort -u | sed "s/^/$1 /"
}

# reached MOMENT LOG: whether a run whose events are in LOG is so far
reached() {
  case $1 in
  *+*)
    grep -q "\"type\":\"begin\".*\"kind\":\"${1%+*}\"" "$2" || return 1
    sleep "${1#*+}"
    ;;
  *) [ "$(grep -c '"type":"done"' "$2")" -ge "$1" ] ;;
  esac
}

node_programs_die() { # sealer as a session on both machines
  local n p
  for n in n1 n2; do
    for p in $(node_run "$n" ps -e -o pid=,args= | awk '/sealer-[0-9a-f]+ .*node/ && !/supervise|balance|registry/ {print $1}'); do
      node_run "$n" kill -KILL "$p" 2>/dev/null || true
    done
  done
}

disturb() { # disturb MOMENT engine|machines|both: a run, ended so
  local pid
  sealer run my-app:v1 "${where[@]}" --pk "$HOME/.ssh/id_ed25519" --kubeconfig "$LAB/kubeconfig" --progress json >"$LAB/disturbed.log" 2>&1 &
  pid=$!
  until reached "$1" "$LAB/disturbed.log"; do
    kill -0 $pid 2>/dev/null || { tail -n 3 "$LAB/disturbed.log"; fail "$1 is a moment of the run"; }
    sleep 0.05
  done
  case $2 in
  engine) kill -KILL $pid ;;
  machines) node_programs_die ;;
  both)
    kill -KILL $pid
    node_programs_die
    ;;
  esac
  wait $pid 2>/dev/null || true
}

case_kills() {
  local where=(-m "$lab_net.11" -n "$lab_net.12") moment who count=0
  step "Two machines, and a run that nothing disturbs"
  nodes_up n1 $lab_net.11 n2 $lab_net.12
  remember n1 n2
  seconds runs my-app:v1 "${where[@]}"
  echo "   sealer run took $took s"
  { shape n1; shape n2; } > "$LAB/shape.whole"
  must "the shape that is compared is not empty" test "$(wc -l < "$LAB/shape.whole")" -gt 100
  sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
  untouched n1 n2
  for moment in $MOMENTS; do
    for who in ${WHO:-engine machines both}; do
      count=$((count + 1))
      step "$count: kill -9 at $moment: $who"
      disturb "$moment" "$who"
      seconds runs my-app:v1 "${where[@]}" || fail "the same command goes on"
      { shape n1; shape n2; } > "$LAB/shape.now"
      diff "$LAB/shape.whole" "$LAB/shape.now" > "$LAB/shape.diff" || { head -n 20 "$LAB/shape.diff"; fail "the machines are as after a run without it"; }
      eventually "two nodes are Ready, and the system's pods run" all_ready 2
      eventually "the pod runs" pod_runs nginx
      must "the proof holds: $(grep -m 1 ^proof: "$LAB/run.log")" grep -q "^proof: .* come from my-app:v1" "$LAB/run.log"
      sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
      untouched n1 n2
      echo "   ok: the same command went on in $took s, and delete left nothing"
    done
  done
  echo "   ok: $count kills"
}
