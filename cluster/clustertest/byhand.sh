# A cluster made without sealer run, the way an administrator's script does it:
# what the times of sealer run are held against. Sourced by run, inside a lab.
# shellcheck shell=bash disable=SC2154

# by_hand FIRST: a cluster of image $IMAGE on one node.
by_hand() {
  local first=$1
  sealer registry serve "$IMAGE" --addr $lab_net.1:5000 --ready-file "$LAB/hand.addr" >"$LAB/hand-registry.log" 2>&1 &
  hand_registry=$!
  sealer mount "$IMAGE" "$LAB/hand-rootfs" >/dev/null
  sealer registry hosts "$IMAGE" --server http://$lab_net.1:5000 --dir "$LAB/hand" >/dev/null
  eventually "the registry serves" test -s "$LAB/hand.addr"
  hand_install "$first"
  node_ssh "$first" kubeadm init --config /etc/kubernetes/kubeadm.yml >"$LAB/hand-init.log" 2>&1 || { tail "$LAB/hand-init.log"; return 1; }
  node_ssh "$first" cat /etc/kubernetes/admin.conf > "$LAB/kubeconfig"
  export KUBECONFIG=$LAB/kubeconfig
  kubectl apply -f "$LAB/hand-rootfs/manifests/network.yaml" >/dev/null
}

# hand_join NODE FIRST [master]: an installed node joins the cluster of FIRST.
hand_join() {
  local join key='' config=/etc/kubernetes/kubeadm.yml
  join=$(node_ssh "$2" kubeadm token create --print-join-command)
  if [ "${3:-}" = master ]; then
    key=$(node_ssh "$2" kubeadm init phase upload-certs --upload-certs --config $config | tail -n 1)
    key="--control-plane --certificate-key $key --apiserver-advertise-address $(cat "$LAB/nodes/$1/ip")"
  fi
  node_ssh "$1" "$join $key --cri-socket unix:///run/containerd/containerd.sock" >"$LAB/hand-join.log" 2>&1 || { tail "$LAB/hand-join.log"; return 1; }
}

hand_install() { # hand_install NODE: the rootfs, its files in their places, the runtime
  local ip
  ip=$(cat "$LAB/nodes/$1/ip")
  tar -C "$LAB/hand-rootfs" --exclude ./registry -cf - . | node_ssh_in "$1" 'mkdir -p /var/lib/rootfs && tar -C /var/lib/rootfs -xf -'
  tar -C "$LAB/hand" -cf - certs.d | node_ssh_in "$1" 'mkdir -p /etc/containerd && tar -C /etc/containerd -xf -'
  {
    sed "s/^kind: InitConfiguration/&\nlocalAPIEndpoint: {advertiseAddress: $ip}/; s/^kind: ClusterConfiguration/&\n${HAND_ENDPOINT:+controlPlaneEndpoint: $HAND_ENDPOINT:6443}/" "$LAB/hand-rootfs/etc/kubeadm.yml"
  } | node_ssh_in "$1" 'mkdir -p /etc/kubernetes && cat > /etc/kubernetes/kubeadm.yml'
  node_ssh "$1" '
    set -e
    cd /var/lib/rootfs
    mkdir -p /opt/cni/bin /etc/cni/net.d /etc/systemd/system/kubelet.service.d
    ln -s $PWD/bin/* /usr/bin/
    cp cni/* /opt/cni/bin/
    cp etc/containerd/config.toml /etc/containerd/
    cp etc/*.service /etc/systemd/system/
    cp etc/10-kubeadm.conf /etc/systemd/system/kubelet.service.d/
    sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
    systemctl daemon-reload
    systemctl enable -q --now containerd kubelet'
}

hand_serves_no_more() { # the registry and the mount of by_hand end
  kill "$hand_registry"
  sealer umount "$LAB/hand-rootfs" >/dev/null
  rm -f "$LAB/hand.addr"
}
