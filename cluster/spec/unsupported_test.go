package spec

import (
	"strings"
	"testing"
)

func TestUnsupported(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: sealer.io/v2
kind: Cluster
metadata: {name: c}
spec:
  image: a:v1
  dataRoot: /data
  apiServer: {balancer: lvscare}
  registry:
    localRegistry:
      username: u
      password: p
      insecure: true
  hosts:
  - {ips: [10.0.0.1], roles: [master]}
`
	f, err := Parse("Clusterfile", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(f); err != nil {
		t.Errorf("the file is readable: %v", err)
	}
	err = f.Unsupported()
	for _, want := range []string{
		"Clusterfile:6: sealer's files lie in /var/lib/sealer/data, not in /data: ", "Clusterfile:7: the balancer lvscare is not supported: ",
		"Clusterfile:10: the registry on the masters serves without a login: ", "Clusterfile:12: the registry on the masters speaks TLS alone: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	external := strings.Replace(text, "localRegistry:\n      username: u\n      password: p\n      insecure: true", "externalRegistry: {domain: r.example}", 1)
	if f, err = Parse("Clusterfile", []byte(external)); err != nil {
		t.Fatal(err)
	}
	if err := f.Unsupported(); err == nil || !strings.Contains(err.Error(), "Clusterfile:9: a cluster that pulls from an external registry is not supported") {
		t.Errorf("error %v", err)
	}
	f, err = Parse("Clusterfile", []byte("apiVersion: sealer.io/v2\nkind: Cluster\nspec:\n  dataRoot: /var/lib/sealer/data\n  registry: {localRegistry: {insecure: false}}\n"))
	if err != nil || f.Unsupported() != nil {
		t.Errorf("errors %v, %v", err, f.Unsupported())
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	for rate, want := range map[string]int64{"": 0, "500": 500, "50M": 50_000_000, "2K": 2000, "1Gi": 1 << 30, "3MiB": 3 << 20, "7MB": 7_000_000, "x": 0, "1T": 0} {
		if got := (Distribution{Rate: rate}).Bytes(); got != want {
			t.Errorf("rate %q: %d, want %d", rate, got, want)
		}
	}
}
