package extend

import (
	"fmt"
	"path"
	"strings"
)

// EtcdScript saves a snapshot of etcd on a master to dir, readable by root
// alone, and checks that it can be restored. node is the master's name in the
// cluster; name is the file's, "" for one with the time. The member runs in
// kubeadm's static pod, which has etcd's tools and keeps its data, and the
// snapshot at first, in /var/lib/etcd.
func EtcdScript(node, dir, name string) string {
	file := `snapshot-$(date -u +%Y%m%dT%H%M%SZ).db`
	if name != "" {
		file = quote(name)
	}
	pki := "/etc/kubernetes/pki/etcd"
	return fmt.Sprintf(`set -eu
umask 077
file=%s
pod=%s
tmp=/var/lib/etcd/.sealer-snapshot.db
trap 'rm -f "$tmp" "$tmp.part"' EXIT
in_pod() { kubectl -n kube-system exec "$pod" -- "$@"; }
in_pod etcdctl --endpoints=https://127.0.0.1:2379 --cacert=%[3]s/ca.crt --cert=%[3]s/healthcheck-client.crt --key=%[3]s/healthcheck-client.key snapshot save "$tmp"
in_pod etcdutl snapshot status "$tmp" || in_pod etcdctl snapshot status "$tmp"
mkdir -p %[4]s
mv "$tmp" %[4]s/"$file"
echo %[4]s/"$file"
`, file, quote("etcd-"+node), pki, quote(path.Clean(dir)))
}

// quote makes one word of a shell of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
