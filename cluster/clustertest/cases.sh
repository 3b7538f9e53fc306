# The cases of run; sourced inside a lab in which the images are built.
# shellcheck shell=bash disable=SC2154

nodes_up() { # nodes_up NAME IP NAME IP...: at the same time
  local jobs=()
  while [ $# -gt 0 ]; do
    node_up "$1" "$2" &
    jobs+=($!)
    shift 2
  done
  wait "${jobs[@]}"
}

all_ready() { # all_ready N: that many nodes are, and all of kube-system
  [ "$(kubectl get nodes --no-headers 2>/dev/null | awk '$2 == "Ready"' | wc -l)" = "$1" ] &&
    kubectl -n kube-system get pods --no-headers | awk '{split($2, n, "/"); if (n[1] != n[2] || $3 != "Running") bad = 1} END {exit bad || NR == 0}'
}

pod_runs() { [ "$(kubectl get pod "$1" -o 'jsonpath={.status.phase} {.status.containerStatuses[0].ready}')" = "Running true" ]; }

# serves NODE: the nginx pod answers a node, by its address, and through a
# Service and its name from inside another pod.
serves() {
  local ip
  ip=$(kubectl get pod nginx -o 'jsonpath={.status.podIP}')
  eventually "the pod answers $1" node_run "$1" curl -sf -m 5 "http://$ip/"
  kubectl expose pod nginx --port 80 >/dev/null
  eventually "a Service and its name lead to it" kubectl exec nginx -- /web get http://nginx.default.svc.cluster.local/
}

offline() { # nothing wanted to leave the network
  local out
  out=$(left)
  [ "$(awk 'NR == 1 {print $1, $2}' <<< "$out")" = "0 0" ] && [ "$(wc -l <<< "$out")" = 1 ] || { echo "$out"; return 1; }
}

# proves: all that runs, and all that the runtimes have, came from the cluster's
# ClusterImages, and the registries serve it. PROVE is another command for it.
proves() {
  ${PROVE:-sealer check --proof --pk "$HOME/.ssh/id_ed25519"} >"$LAB/proof" || { cat "$LAB/proof"; fail "everything that runs came from the ClusterImages"; }
  must "every container runtime told all that it has" grep -qE "^$(kubectl get nodes --no-headers | wc -l) container runtimes? told" "$LAB/proof"
  echo "   ok: $(tail -n 1 "$LAB/proof")"
}

# stranger NODE IMAGE: a pod whose image somebody brought to the node by another
# way is named, and so are the image and a container of no pod.
stranger() {
  local image=$lab_net.1:5999/docker.io/library/stranger:v1 status=0 pid
  upstream -empty -dir "$LAB/upstream" -addr $lab_net.1:5999 -ready-file "$LAB/stranger.addr" >/dev/null 2>&1 &
  pid=$!
  eventually "a registry with a stranger answers" test -s "$LAB/stranger.addr"
  node_run "$1" ctr -n k8s.io images pull --plain-http "$image" >/dev/null
  kill "$pid"
  seconds sealer check --proof --pk "$HOME/.ssh/id_ed25519" >"$LAB/proof" 2>"$LAB/proof.err" || status=$?
  must "sealer check --proof exits with 3 in $took s" test "$status" = 3
  must "and names the image: $(grep -m 1 "STRANGER: node $1" "$LAB/proof")" grep -q "STRANGER: node $1" "$LAB/proof"
  kubectl run stranger --image="$image" --image-pull-policy=Never --overrides="{\"spec\":{\"nodeName\":\"$1\"}}" >/dev/null
  eventually "the stranger runs" pod_runs stranger
  status=0
  sealer check --proof --image "$2" >"$LAB/proof" 2>"$LAB/proof.err" || status=$?
  must "through the API alone it exits with 3, too" test "$status" = 3
  must "and names the stranger: $(grep -m 1 'STRANGER: pod default/stranger' "$LAB/proof")" grep -q 'STRANGER: pod default/stranger' "$LAB/proof"
  kubectl delete pod stranger --now >/dev/null
  node_run "$1" ctr -n k8s.io images rm "$image" >/dev/null
}

# runs ARG...: sealer run, with the lab's key; its report goes to a log.
runs() {
  sealer run "$@" --pk "$HOME/.ssh/id_ed25519" --kubeconfig "$LAB/kubeconfig" >"$LAB/run.log" 2>&1 || { tail -n 40 "$LAB/run.log"; return 1; }
  export KUBECONFIG=$LAB/kubeconfig
}

# remember NODE... and untouched NODE...: the nodes' states, and that they are
# what they were. The store of a machine that sealer itself was started on is
# its user's, and is left out.
state() {
  if [ "$1" = alone ]; then node_state "$1" | grep -v '^file /var/lib/sealer'; else node_state "$1"; fi
}
remember() { local n; for n; do state "$n" > "$LAB/$n.before"; done; }
changed() { # changed NODE: the comparison sees what a cluster leaves on a node
  echo "   ok: $(node_state "$1" | diff - "$LAB/$1.before" | grep -c '^<') lines of $1's state are new while the cluster stands"
}
untouched() {
  local n status=0
  for n; do
    state "$n" > "$LAB/$n.after"
    diff "$LAB/$n.before" "$LAB/$n.after" || { echo "   NOT SO: $n is as before: < before, > after" >&2; status=1; }
  done
  [ $status = 0 ] || exit 1
  echo "   ok: 0 differences on $*"
}

# application NODES SEEN-FROM: the application's pod runs everywhere that it is
# asked for, and nothing came from elsewhere.
application() {
  eventually "$1 nodes are Ready, and the system's pods run" all_ready "$1"
  eventually "kubectl run nginx --image=nginx:latest: the pod runs" pod_runs nginx
  serves "$2"
  proves
  must "0 packets and 0 DNS queries wanted to leave" offline
}

case_small() {
  step "Two machines"
  nodes_up n1 $lab_net.11 n2 $lab_net.12
  remember n1 n2
  step "sealer run my-app:v1, one master and one worker"
  seconds runs my-app:v1 -m $lab_net.11 -n $lab_net.12
  echo "   sealer run took $took s"
  application 2 n2
  step "The same command again"
  seconds runs my-app:v1 -m $lab_net.11 -n $lab_net.12
  must "nothing was changed, in $took s" grep -q 'nothing was changed' "$LAB/run.log"
  must "its proof ends the report: $(grep -m 1 ^proof: "$LAB/run.log")" grep -q "^proof: .* come from my-app:v1" "$LAB/run.log"
  stranger n2 my-app:v1
  changed n2
  step "sealer delete --all"
  seconds sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
  echo "   sealer delete took $took s"
  untouched n1 n2
}

# application_comes: an application image on the cluster that stands.
application_comes() {
  step "sealer run shop:v1, an application, onto the cluster"
  seconds sealer run shop:v1 -c my-cluster --pk "$HOME/.ssh/id_ed25519" >"$LAB/app.log" 2>&1 || { tail -n 40 "$LAB/app.log"; fail "sealer run of an application"; }
  echo "   sealer run took $took s"
  must "its proof counts both images: $(grep -m 1 ^proof: "$LAB/app.log")" grep -q "^proof: .* come from my-app:v1, shop:v1" "$LAB/app.log"
  eventually "the pod of the application runs" pod_runs shop
  seconds sealer run shop:v1 --kubeconfig "$LAB/kubeconfig" --pk "$HOME/.ssh/id_ed25519" >"$LAB/app.log" 2>&1 || { tail -n 40 "$LAB/app.log"; fail "the same again"; }
  must "the same again, by the kubeconfig: nothing was changed, in $took s" grep -q 'nothing was changed' "$LAB/app.log"
}

case_large() {
  case_alone
  case_five
  case_grow
  case_kyverno
}

# kyverno_images: the Kyverno BaseImage on the BaseImage, and on that the
# application as its page has it.
kyverno_images() {
  local version=${LAB_KYVERNO##*kyverno-}
  sealer init kyverno "$LAB/kyverno" --from $IMAGE --install-manifest "$LAB_KYVERNO/install.yaml" --kyverno-version "$version" >/dev/null
  sealer build -q -t kubernetes-kyverno:v1.33.13 "$LAB/kyverno"
  mkdir -p "$LAB/seed"
  printf 'FROM kubernetes-kyverno:v1.33.13\nCOPY imageList manifests\nCMD kubectl run nginx --image=nginx:latest\n' > "$LAB/seed/Kubefile"
  echo nginx:latest > "$LAB/seed/imageList"
  sealer build -q -t my-nginx:v1 "$LAB/seed"
}

pod_has() { [ "$(kubectl get pod "$1" -o "jsonpath=$2")" = "$3" ]; }
pods_run() { # pods_run NAMESPACE N: that many pods, all of them ready
  kubectl -n "$1" get pods --no-headers | awk -v want="$2" '{split($2, n, "/"); if (n[1] != n[2] || $3 != "Running") bad = 1} END {exit bad || NR != want}'
}
cannot_pull() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].state.waiting.reason}' | grep -qE '^(ErrImagePull|ImagePullBackOff)$'; }

case_kyverno() {
  step "Two machines; sealer run my-nginx:v1, which stands on the Kyverno BaseImage"
  nodes_up k1 $lab_net.51 k2 $lab_net.52
  remember k1 k2
  seconds runs my-nginx:v1 -m $lab_net.51 -n $lab_net.52
  echo "   sealer run took $took s"
  eventually "both nodes are Ready, and the system's pods run" all_ready 2
  eventually "Kyverno's four controllers run" pods_run kyverno 4
  eventually "kubectl run nginx --image=nginx:latest: the pod runs" pod_runs nginx
  must "its image is sea.hub:5000/library/nginx:latest" pod_has nginx '{.spec.containers[0].image}' sea.hub:5000/library/nginx:latest
  must "and its node had it from there" sh -c "kubectl get pod nginx -o 'jsonpath={.status.containerStatuses[0].imageID}' | grep -q '^sea.hub:5000/library/nginx@sha256:'"
  serves k2
  kubectl run outside --image=quay.io/not/inside:v1 >/dev/null
  must "an image that is not inside is asked for at sea.hub:5000, too" pod_has outside '{.spec.containers[0].image}' sea.hub:5000/not/inside:v1
  eventually "which does not have it" cannot_pull outside
  kubectl delete pod outside --now >/dev/null
  proves
  must "0 packets and 0 DNS queries wanted to leave" offline
  step "The same command again"
  seconds runs my-nginx:v1 -m $lab_net.51 -n $lab_net.52
  must "nothing was changed, in $took s" grep -q 'nothing was changed' "$LAB/run.log"
  step "sealer delete --all"
  sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
  untouched k1 k2
  local n
  for n in k1 k2; do
    node_kill $n
    node_wipe $n
  done
}

# operator NODE RULE: a user ops of the node, whose password is s3cret and who may
# become root as RULE of sudoers says. root itself cannot log in.
operator() {
  node_run "$1" sh -c '
    set -e
    useradd -m -s /bin/bash ops
    echo ops:s3cret | chpasswd
    mkdir -p /home/ops/.ssh /etc/sudoers.d
    cp /root/.ssh/authorized_keys /home/ops/.ssh/
    chown -R ops:ops /home/ops/.ssh
    chmod 700 /home/ops/.ssh
    rm /root/.ssh/authorized_keys
    echo "ops ALL=(ALL) $1" > /etc/sudoers.d/ops
    chmod 440 /etc/sudoers.d/ops' - "$2"
}

members() { # members NODE: how many members its etcd knows
  node_run "$1" curl -sf --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --key /etc/kubernetes/pki/etcd/healthcheck-client.key -d '{}' https://127.0.0.1:2379/v3/cluster/member/list | grep -o '"ID"' | wc -l
}

# changes NAME WORDS...: a sealer command that changes the cluster; its report
# goes to a log.
changes() {
  local log=$LAB/$1.log
  shift
  seconds "$@" --yes --pk "$HOME/.ssh/id_ed25519" >"$log" 2>&1 || { tail -n 40 "$log"; fail "$*"; }
  echo "   $1 $2 took $took s"
}

is_gone() { ! kubectl get node "$1" >/dev/null 2>&1; }
has_members() { [ "$(members "$1")" = "$2" ]; }

case_grow() {
  export SEALER_SSH_PASSWORD=s3cret
  step "Machines of a user who is not root: sudo without a password, and with it"
  nodes_up g1 $lab_net.41 g2 $lab_net.42 g3 $lab_net.43 g4 $lab_net.44
  operator g1 'NOPASSWD: ALL'
  local n
  for n in g2 g3 g4; do operator "$n" ALL; done
  remember g1 g2 g3 g4
  must "root does not log in" sh -c "! ssh -F none -i '$HOME/.ssh/id_ed25519' -o 'UserKnownHostsFile=$HOME/.ssh/known_hosts' -o BatchMode=yes root@$lab_net.41 true 2>/dev/null"
  seconds runs my-app:v1 -m $lab_net.41 -n $lab_net.42 -u ops
  echo "   sealer run took $took s"
  must "no password is in its report" sh -c "! grep -q s3cret '$LAB/run.log'"
  eventually "two nodes are ready" all_ready 2
  eventually "the pod runs" pod_runs nginx
  application_comes
  step "Machines join: a worker and a second master"
  changes join sealer join -n $lab_net.43
  eventually "three nodes are ready" all_ready 3
  changes join sealer join -m $lab_net.44
  eventually "four nodes are ready" all_ready 4
  must "etcd has two members" has_members g1 2
  must "the new master serves the application's images" node_run g4 curl -sfk https://127.0.0.1:5000/v2/shop/shop/tags/list
  proves
  step "Certificates are renewed, and what helps to find faults is packed"
  node_run g1 sha256sum /etc/kubernetes/pki/apiserver.crt > "$LAB/apiserver.before"
  changes cert sealer cert renew --kubeconfig "$LAB/kubeconfig"
  must "the API server's certificate is another" sh -c "! nsenter --target $(cat "$LAB/nodes/g1/pid") --mount --root sha256sum /etc/kubernetes/pki/apiserver.crt | cmp -s - '$LAB/apiserver.before'"
  eventually "four nodes are ready" all_ready 4
  must "no certificate ends soon" sealer cert list --pk "$HOME/.ssh/id_ed25519"
  must "the bundle is whole" sealer debug bundle -o "$LAB/bundle.tar.gz" --pk "$HOME/.ssh/id_ed25519"
  must "and has no key" sh -c "! tar -xzOf '$LAB/bundle.tar.gz' | grep -qE 'PRIVATE KEY|s3cret'"
  step "A node reboots"
  node_down g2
  node_up g2 $lab_net.42
  eventually "its services run" node_run g2 systemctl is-active containerd kubelet sealer-node
  eventually "four nodes are ready" all_ready 4
  eventually "the pod runs again" pod_runs nginx
  step "Machines leave: the worker, then the second master"
  changes leave sealer delete -n $lab_net.43
  must "the node is gone" is_gone g3
  untouched g3
  changes leave sealer delete -m $lab_net.44
  must "the node is gone" is_gone g4
  must "etcd has one member" has_members g1 1
  untouched g4
  eventually "the others work" all_ready 2
  must "0 packets and 0 DNS queries wanted to leave" offline
  step "sealer delete --all"
  changes delete sealer delete --all
  untouched g1 g2
  unset SEALER_SSH_PASSWORD
}

# pod_started_after_boot: the nginx pod runs, and not by an answer of before.
pod_started_after_boot() {
  pod_runs nginx && [ "$(kubectl get pod nginx -o 'jsonpath={.status.containerStatuses[0].restartCount}')" -gt 0 ]
}

case_alone() {
  step "A machine without systemd, on itself: sealer run IMAGE"
  node_up alone $lab_net.10 plain
  cp "$(command -v sealer)" "$LAB/nodes/alone/var/tmp/"
  sealer save -o "$LAB/nodes/alone/var/tmp/image.tar" my-app:v1 >/dev/null
  node_run alone /var/tmp/sealer load -i /var/tmp/image.tar >/dev/null
  remember alone
  seconds node_run alone /var/tmp/sealer run my-app:v1 >"$LAB/alone.log" 2>&1 || { tail -n 40 "$LAB/alone.log"; fail "sealer run on the machine itself"; }
  echo "   sealer run took $took s"
  node_run alone cat /root/.kube/config > "$LAB/kubeconfig"
  KUBECONFIG=$LAB/kubeconfig PROVE="node_run alone /var/tmp/sealer check --proof" application 1 alone
  step "Its power is cut, and comes back"
  node_kill alone
  node_up alone $lab_net.10
  must "its services start" node_run alone /var/lib/sealer/data/my-cluster/bin/sealer node start
  export KUBECONFIG=$LAB/kubeconfig
  eventually "the pod runs again" pod_started_after_boot
  eventually "the node is Ready, and the system's pods run" all_ready 1
  unset KUBECONFIG
  seconds node_run alone /var/tmp/sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
  echo "   sealer delete took $took s"
  node_run alone rm -rf /root/.kube /root/.sealer
  untouched alone
  node_kill alone
  node_wipe alone
}

case_five() {
  step "Three masters and two workers over SSH"
  nodes_up m1 $lab_net.21 m2 $lab_net.22 m3 $lab_net.23 w1 $lab_net.31 w2 $lab_net.32
  remember m1 m2 m3 w1 w2
  seconds runs my-app:v1 -m $lab_net.21-$lab_net.23 -n $lab_net.31,$lab_net.32
  echo "   sealer run took $took s"
  application 5 w2
  step "Power is cut from a master, and comes back"
  node_kill m2
  eventually "the others notice" sh -c '[ "$(kubectl get nodes --no-headers | grep -c NotReady)" = 1 ]'
  must "a pod can be made without it" kubectl run second --image=nginx:latest
  eventually "and runs" pod_runs second
  node_up m2 $lab_net.22
  eventually "five nodes are Ready again" all_ready 5
  kubectl delete pod second --now >/dev/null
  step "A master loses its power for good"
  node_kill m3
  changes leave sealer delete -m $lab_net.23 --force
  must "its node is gone" is_gone m3
  must "etcd has two members" has_members m1 2
  eventually "the others work" all_ready 4
  node_up m3 $lab_net.23
  changes leave sealer delete -m $lab_net.23
  untouched m3
  step "sealer delete --all"
  sealer delete --all --yes >"$LAB/delete.log" 2>&1 || { cat "$LAB/delete.log"; fail "delete"; }
  untouched m1 m2 w1 w2
}

case_shell() {
  nodes_up n1 $lab_net.11 n2 $lab_net.12
  printf 'Images kubernetes:v1.33.13 and my-app:v1; nodes n1 (%s.11) and n2 (%s.12); node_run, node_ssh, sealer, kubectl\n' $lab_net $lab_net
  export -f node_run node_ssh node_ssh_in node_state node_up node_down node_kill node_pid node_ready
  bash --norc -i
}
