# Bad input: it is refused before the first change, or delete takes away what it
# left. Sourced by run, inside a lab in which the image is built.
# shellcheck shell=bash disable=SC2154

# refused WORDS ARG...: sealer run with ARG... ends with a fault that says WORDS,
# an extended regular expression, and no machine has changed.
refused() {
  local words=$1 status=0 n
  shift
  sealer run "$@" --no-proof --yes >"$LAB/refused.log" 2>&1 </dev/null || status=$?
  [ "$status" != 0 ] || { tail -n 5 "$LAB/refused.log"; fail "a fault that says: $words"; }
  grep -qE -- "$words" "$LAB/refused.log" || { cat "$LAB/refused.log"; fail "the fault says: $words"; }
  for n in "${all[@]}"; do
    state "$n" | diff "$LAB/$n.before" - >"$LAB/$n.diff" || { cat "$LAB/$n.diff"; fail "$n is as before"; }
  done
  echo "   ok: $(grep -E -m 1 -- "$words" "$LAB/refused.log")"
}

# variant makes a copy of the image's context, to be changed.
variant() {
  rm -rf "$LAB/variant"
  cp -r "$LAB/context" "$LAB/variant"
}

case_faults() {
  local all=(n1 n2 n3) where=(-m "$lab_net.11" -n "$lab_net.12,$lab_net.13") key=(--pk "$HOME/.ssh/id_ed25519") pid n
  step "Three machines"
  machines 3
  remember "${all[@]}"
  for n in "${all[@]}"; do cp "$LAB/$n.before" "$LAB/$n.fresh"; done
  sealer check --pre "${where[@]}" "${key[@]}" $skip >"$LAB/check.log" 2>&1 || { cat "$LAB/check.log"; fail "the machines are well"; }
  untouched "${all[@]}"
  sealer run standin:v1 "${where[@]}" "${key[@]}" $skip --dry-run >"$LAB/check.log" 2>&1 || { cat "$LAB/check.log"; fail "a plan"; }
  untouched "${all[@]}"

  step "Machines that are not reached"
  refused "connect $lab_net.99:22: .*(no route to host|timeout)" standin:v1 -m $lab_net.11 -n $lab_net.12,$lab_net.99 "${key[@]}"
  : > "$LAB/nobody"
  refused 'accept-new-host-keys' standin:v1 "${where[@]}" "${key[@]}" --known-hosts "$LAB/nobody"
  mv "$HOME/.ssh/known_hosts" "$LAB/kept"
  awk -v ip=$lab_net.13 -v other=$lab_net.12 '$1 != ip {print} $1 == other {$1 = ip; print}' "$LAB/kept" > "$HOME/.ssh/known_hosts"
  refused "the host key of $lab_net.13:22 has changed: .*another machine may be answering" standin:v1 "${where[@]}" "${key[@]}"
  mv "$LAB/kept" "$HOME/.ssh/known_hosts"

  step "A wrong password"
  node_run n3 sh -c 'useradd -m ops && echo ops:s3cret | chpasswd'
  remember n3
  SEALER_SSH_PASSWORD=wr0ng refused "connect $lab_net.13:22: user ops was not let in \(tried: .*password\)" standin:v1 -m $lab_net.13 -u ops
  must "the password is not told" sh -c "! grep -q wr0ng '$LAB/refused.log'"

  step "Machines that are taken for one another"
  refused "$lab_net.11" standin:v1 -m $lab_net.11 -n $lab_net.11 "${key[@]}"
  node_run n2 hostname n1
  remember n2
  refused 'hostname: .*they have one hostname: n1' standin:v1 "${where[@]}" "${key[@]}"
  node_run n2 hostname n2
  node_run n3 sysctl -q -w net.ipv4.conf.all.arp_ignore=1 # else it would answer for n2
  ip -n n3 link add second type bridge
  ip -n n3 addr add $lab_net.12/32 dev second
  remember n2 n3
  refused "$lab_net.12.*is on $lab_net.13, too" standin:v1 "${where[@]}" "${key[@]}"
  ip -n n3 link del second
  node_run n3 sysctl -q -w net.ipv4.conf.all.arp_ignore=0
  remember n3

  step "No room, a port in use, a cluster of before"
  node_run n2 sh -c 'cp -a /var/lib/sealer /run/kept && mount -t tmpfs -o "size=$1" tmpfs /var/lib/sealer && cp -a /run/kept/. /var/lib/sealer/' - $(($(stat -c %s "$(command -v sealer)") + (1 << 20)))
  remember n2
  refused "disk: .*/var/lib/sealer has .* free, and .* are needed" standin:v1 "${where[@]}" "${key[@]}" ${skip//,disk/}
  node_run n2 sh -c 'umount -l /var/lib/sealer; rm -rf /run/kept'
  node_run n3 socat TCP-LISTEN:10250,fork,reuseaddr SYSTEM:true &
  pid=$!
  eventually "something listens" node_run n3 sh -c 'ss -ltn | grep -q :10250'
  remember n2 n3
  refused "ports: .*port 10250, for the kubelet, is taken by socat" standin:v1 "${where[@]}" "${key[@]}" $skip
  kill $pid
  node_run n3 pkill socat || true
  node_run n1 sh -c 'mkdir -p /etc/kubernetes/manifests && : > /etc/kubernetes/admin.conf'
  remember n1 n3
  refused "leftovers: .*a cluster was or is here: /etc/kubernetes" standin:v1 "${where[@]}" "${key[@]}" $skip
  node_run n1 rm -rf /etc/kubernetes
  remember n1

  step "Images that do not fit"
  sealer build -q --scan=sealer --platform linux/arm64 -t other:v1 "$LAB/context" >/dev/null
  refused "it is amd64, and the image is for arm64" other:v1 "${where[@]}" "${key[@]}" $skip
  variant
  sed -i 's|exec echo docker.io/library/nginx:latest|{ echo docker.io/library/nginx:latest; exec echo registry.k8s.io/etcd:3.5; }|' "$LAB/variant/bin/kubeadm"
  sealer build -q --scan=sealer -t lacking:v1 "$LAB/variant" >/dev/null
  refused "kubeadm wants images that the ClusterImage does not have: registry.k8s.io/etcd:3.5" lacking:v1 "${where[@]}" "${key[@]}" $skip

  step "Clusterfiles that cannot be followed"
  printf 'apiVersion: sealer.aliyun.com/v1alpha1\nkind: Cluster\nmetadata:\n  name: my-cluster\nspec:\n  image: standin:v1\n  provider: ALI_CLOUD\n  masters:\n    count: 3\n' > "$LAB/cloud"
  refused 'cloud:7: .*ALI_CLOUD' -f "$LAB/cloud"
  printf 'apiVersion: sealer.io/v2\nkind: Cluster\nmetadata:\n  name: my-cluster\nspec:\n  image: standin:v1\n  host:\n  - ips: [%s]\n' $lab_net.11 > "$LAB/typing"
  refused 'typing:7: .*host.*hosts' -f "$LAB/typing"

  step "A start command that fails"
  if sealer run standin:v1 "${where[@]}" "${key[@]}" --kubeconfig "$LAB/kubeconfig" --no-proof --yes $skip --cmds 'echo first' --cmds 'echo one; echo the last line; exit 7' >"$LAB/run.log" 2>&1; then fail "the run fails"; fi
  must "the fault names the command, and has its last lines" grep -qE "^Error: .*$lab_net.11: start command 2: echo one; echo the last line; exit 7: .*exit status 7: one [|] the last line" "$LAB/run.log"
  must "and how to go on" grep -q 'The same command goes on where it stopped; sealer delete --all' "$LAB/run.log"
  deletes
  for n in n1 n2; do cp "$LAB/$n.fresh" "$LAB/$n.before"; done
  untouched n1 n2
}
