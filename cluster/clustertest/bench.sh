# The times of sealer run beside those of the way by hand, all in one lab; sourced
# by run. Each result is a line with its goal.
# shellcheck shell=bash disable=SC2154

bench_forget() { # bench_forget NODE...: other machines get their addresses
  local n
  for n; do
    sed -i "/^$(cat "$LAB/nodes/$n/ip") /d" "$HOME/.ssh/known_hosts"
    node_kill "$n"
    node_wipe "$n"
  done
}

bench_one() { # one master, by hand and by sealer run, in turns
  local hand=() i
  ours=()
  for ((i = 1; i <= ${RUNS:-3}; i++)); do
    step "One master by hand, $i"
    node_up h $lab_net.11
    seconds eval 'by_hand h && eventually "all runs" all_ready 1'
    hand+=("$took")
    hand_serves_no_more
    bench_forget h
    step "One master by sealer run, $i"
    node_up s $lab_net.12
    seconds eval 'runs $IMAGE -m $lab_net.12 && eventually "all runs" all_ready 1'
    ours+=("$took")
    slowest
    sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
    bench_forget s
  done
  echo "   by hand: ${hand[*]} s; sealer run: ${ours[*]} s"
  # shellcheck disable=SC2030
  (
    unset FIGURES # the page makes the ratio itself
    goal "one master until all runs, sealer run / by hand ($(median "${ours[@]}") / $(median "${hand[@]}") s)" \
      "$(echo "scale=2; $(median "${ours[@]}") / $(median "${hand[@]}")" | bc)" 1.10 ''
  )
  figure "run/one master until all runs" "$(median "${ours[@]}")" s goal=1.10 "peer=by hand" "peerValue=$(median "${hand[@]}")" \
    "low=$(printf '%s\n' "${ours[@]}" | sort -n | head -n 1)" "high=$(printf '%s\n' "${ours[@]}" | sort -n | tail -n 1)" "runs=${#ours[@]}"
}

# slowest prints the steps of the last run that took longest.
slowest() { sed -nE 's/.*\(([0-9.]+)s\)$/\1 &/p' "$LAB/run.log" | sort -rn | head -n "${SLOWEST:-3}" | sed 's/^[0-9.]* /     /'; }

bench_five() { # three masters and two workers, beside the parts by hand
  local masters=() worker bound n
  step "Joins by hand: two masters and a worker"
  nodes_up h1 $lab_net.21 h2 $lab_net.22 h3 $lab_net.23 h4 $lab_net.24
  HAND_ENDPOINT=$lab_net.21 by_hand h1
  for n in h2 h3 h4; do HAND_ENDPOINT=$lab_net.21 hand_install "$n"; done
  for n in h2 h3; do
    seconds hand_join "$n" h1 master
    masters+=("$took")
  done
  seconds hand_join h4 h1
  worker=$took
  eventually "four nodes are ready" all_ready 4
  hand_serves_no_more
  bench_forget h1 h2 h3 h4
  step "Three masters and two workers by sealer run"
  nodes_up m1 $lab_net.21 m2 $lab_net.22 m3 $lab_net.23 w1 $lab_net.31 w2 $lab_net.32
  seconds eval 'runs $IMAGE -m $lab_net.21-$lab_net.23 -n $lab_net.31,$lab_net.32 && eventually "all runs" all_ready 5'
  slowest
  bound=$(echo "$(median "${ours[@]}") + ${masters[0]} + ${masters[1]} + $worker + 5" | bc)
  echo "   one master by sealer run: $(median "${ours[@]}") s; joins by hand: masters ${masters[*]} s, worker $worker s"
  goal "three masters and two workers until all runs" "$took" "$bound" s
  step "The same command again"
  seconds runs $IMAGE -m $lab_net.21-$lab_net.23 -n $lab_net.31,$lab_net.32 --progress json --no-proof
  grep -q 'nothing was changed' "$LAB/run.log" || fail "nothing was changed"
  goal "second run of five nodes" "$took" 2 s
  goal "blobs that it sent" "$(grep -c '"type":"sent"' "$LAB/run.log" || true)" 0 ''
  seconds runs $IMAGE -m $lab_net.21-$lab_net.23 -n $lab_net.31,$lab_net.32
  goal "the same with the proof" "$took" 2 s
  sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
}

case_bench() {
  local ours
  bench_one
  bench_five
  step "Results"
  cat "$LAB/goals"
}
