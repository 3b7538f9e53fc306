# shellcheck shell=bash
# The parts of the cluster. Sourced by run.
# shellcheck disable=SC2154 # work and the helpers are run's

# rootfs IMAGE DIR: what the ClusterImage's files are when merged.
rootfs() {
  mkdir -p "$2"
  local id
  for id in $(sealer inspect "$1" --format '{{range .Spec.Layers}}{{if ne .Type "BASE"}}{{.ID}} {{end}}{{end}}'); do
    cp -a "$SEALER_ROOT/data/overlay2/$id/." "$2/"
  done
}

# commands IMAGE: the start commands, one a line, the base's first.
commands() {
  sealer inspect "$1" --format '{{range .Spec.ImageConfig.Cmd.Parent}}{{.}}
{{end}}{{range .Spec.ImageConfig.Cmd.Current}}{{.}}
{{end}}' | grep .
}

start_cluster() {
  mkdir -p "$work/pki"
  openssl genrsa -out "$work/pki/sa.key" 2048 2>/dev/null
  echo 'secret,admin,admin,system:masters' > "$work/tokens"
  etcd --data-dir "$work/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 >"$work/etcd.log" 2>&1 &
  kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port 6443 \
    --cert-dir "$work/pki" --token-auth-file "$work/tokens" --authorization-mode AlwaysAllow --service-cluster-ip-range 10.0.0.0/24 \
    --service-account-issuer https://cluster.test --service-account-key-file "$work/pki/sa.key" --service-account-signing-key-file "$work/pki/sa.key" \
    --disable-admission-plugins ServiceAccount --endpoint-reconciler-type none \
    --feature-gates MutatingAdmissionPolicy=true --runtime-config admissionregistration.k8s.io/v1alpha1=true \
    >"$work/kube-apiserver.log" 2>&1 &
  cat > "$KUBECONFIG" <<CONFIG
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}
users:
- name: admin
  user: {token: secret}
contexts:
- name: test
  context: {cluster: test, user: admin}
current-context: test
CONFIG
  eventually "the API server is ready" kubectl get --raw /readyz
  eventually "there is a default namespace" kubectl get namespace default
}

# start_kyverno_when_installed does what a kubelet does with Kyverno's
# Deployment: it starts the admission controller with its arguments, but out of
# the cluster.
start_kyverno_when_installed() {
  until kubectl -n kyverno get deployment kyverno-admission-controller >/dev/null 2>&1; do sleep 0.2; done
  kubectl -n kyverno get deployment kyverno-admission-controller -o json > "$work/deployment.json"
  python3 - "$work/deployment.json" "$version" > "$work/kyverno.args" <<'PYTHON'
import json, sys
spec = json.load(open(sys.argv[1]))["spec"]["template"]["spec"]["containers"][0]
assert spec["image"] == "sea.hub:5000/kyverno/kyverno:" + sys.argv[2], spec["image"]
print("\n".join(spec["args"]))
PYTHON
  local args
  mapfile -t args < "$work/kyverno.args"
  INIT_CONFIG=kyverno METRICS_CONFIG=kyverno-metrics KYVERNO_NAMESPACE=kyverno KYVERNO_POD_NAME=kyverno-0 \
    KYVERNO_SERVICEACCOUNT_NAME=kyverno-admission-controller KYVERNO_ROLE_NAME=kyverno:admission-controller KYVERNO_SVC=kyverno-svc \
    KYVERNO_DEPLOYMENT=kyverno-admission-controller TUF_ROOT="$work/sigstore" \
    "kyverno-$version" "${args[@]}" --kubeconfig="$KUBECONFIG" --serverIP=127.0.0.1:9443 >"$work/kyverno.log" 2>&1 &
  echo $! > "$work/kyverno.pid"
  wait $!
}

stop_kyverno() {
  kill "$(cat "$work/kyverno.pid")"
  while kill -0 "$(cat "$work/kyverno.pid")" 2>/dev/null; do sleep 0.2; done
}

# remove_webhooks deletes what Kyverno leaves behind.
remove_webhooks() {
  kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o name | sed 's/^/   left behind: /'
  kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations -l webhook.kyverno.io/managed-by=kyverno >/dev/null
}

# pulls DIR IMAGE: containerd pulls IMAGE with the hosts.toml files in DIR.
pulls() {
  ctr -a "$work/ctrd/s" images pull --hosts-dir "$work/$1/certs.d" --snapshotter native --platform linux/amd64 "$2" >"$work/ctr.out" 2>&1
}

# containerd_pulls pulls each image of the application by its public name.
containerd_pulls() {
  sealer redirect app:v1 -o containerd --plain-http --dir "$work/containerd"
  mkdir -p "$work/ctrd"
  cat > "$work/ctrd/config.toml" <<CONFIG
version = 2
root = "$work/ctrd/root"
state = "$work/ctrd/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "$work/ctrd/s"
[ttrpc]
address = "$work/ctrd/t"
CONFIG
  containerd -c "$work/ctrd/config.toml" >"$work/containerd.log" 2>&1 &
  eventually "containerd answers" ctr -a "$work/ctrd/s" version
  local n=0 image
  while IFS= read -r image; do
    pulls containerd "$image" || { cat "$work/ctr.out"; fail "containerd pulls $image"; }
    n=$((n + 1))
  done < <(sealer inspect app:v1 --images --format '{{.Reference}}' | sort -u)
  if pulls containerd quay.io/not/inside:v1; then fail "containerd pulled an image that is not inside"; fi
  sealer redirect app:v1 -o containerd --plain-http --deny-others --dir "$work/denying" >/dev/null
  pulls denying quay.io/a/b:v1 || { cat "$work/ctr.out"; fail "containerd pulls with --deny-others"; }
  if pulls denying other.example/not/inside:v1; then fail "containerd pulled an image that is not inside"; fi
  grep -q denied.invalid "$work/ctr.out" || { cat "$work/ctr.out"; fail "an unknown registry is sent nowhere"; }
  echo "   ok: $n images pulled; one that is not inside was not"
  printf '%-28s %3d images, all pulled by their public names\n' "containerd, hosts.toml" "$n" >> "$work/summary"
}
