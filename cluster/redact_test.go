package cluster

import (
	"strings"
	"testing"

	"github.com/clusterimage/sealer/cluster/spec"
)

func TestRedact(t *testing.T) {
	t.Setenv("REDACT_TOKEN", "from-environment")
	f := &spec.File{Cluster: spec.Cluster{
		SSH: spec.SSH{Passwd: spec.NewSecret("hunter2")},
		Env: []string{"APP=${env:REDACT_TOKEN}", "DB_PASSWORD=plainvalue", "Replicas=30"},
	}}
	r := newRedactor(f)
	for _, c := range []struct{ text, secret, keeps string }{
		{"sudo said hunter2 today", "hunter2", "sudo said "},
		{"base64 aHVudGVyMg==", "aHVudGVyMg", "base64"},
		{"value from-environment ends", "from-environment", "ends"},
		{"seen plainvalue in a log", "plainvalue", "in a log"},
		{"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\nxx==\n-----END EC PRIVATE KEY-----\nafter", "MHcCAQEEIB", "after"},
		{"-----BEGIN PRIVATE KEY-----\nMHcCAQEEIB", "MHcCAQEEIB", ""},
		{"Authorization: Bearer abcdefghijk", "abcdefghijk", "Authorization"},
		{`{"Authorization":"Basic dTpwYXNz"}`, "dTpwYXNz", "Authorization"},
		{"join --token abcdef.0123456789abcdef --config x", "0123456789abcdef", "--config x"},
		{"join abcdef.0123456789abcdef now", "0123456789abcdef", "now"},
		{`"env":{"DB_PASSWORD":"s3cr3t value","REPLICAS":"3"}`, "s3cr3t", `"REPLICAS":"3"`},
		{`{"config":"x:\n  \"token\": \"t0ken\"\nkind: A"}`, "t0ken", "kind: A"},
		{"password = 'with space'", "with space", "password"},
		{"  client-key-data: LS0tLS1CRUdJTg==\n  name: a", "LS0tLS1", "name: a"},
		{"certificateKey: 0011223344556677", "0011223344556677", "certificateKey"},
		{`auth = "dXNlcjpwYXNz"`, "dXNlcjpwYXNz", "auth"},
		{"GET https://user:pa55@host/v2/", "pa55", "host/v2/"},
		{"jwt eyJhbGciOi.eyJzdWIiOi.c2lnbmF0 end", "eyJzdWIiOi", "end"},
		{"mysql --password letmein -h db", "letmein", "-h db"},
	} {
		got := r.text(c.text)
		if strings.Contains(got, c.secret) || !strings.Contains(got, c.keeps) {
			t.Errorf("%q became %q", c.text, got)
		}
	}
	for _, plain := range []string{
		"Replicas=30", "author: someone", "kubelet.service: active", "sha256:0123456789abcdef0123456789abcdef", "https://10.0.0.1:6443/readyz",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
	} {
		if got := r.text(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}
