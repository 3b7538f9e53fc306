package spec

import (
	"errors"
	"testing"
)

func TestEncryptedPassword(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: sealer.io/v2
kind: Cluster
metadata: {name: a}
spec:
  image: i
  ssh:
    encrypted: true
    passwd: ENCRYPTED
  hosts:
  - ips: [10.0.0.1]
    roles: [master]
    ssh: {user: x}
`
	// Made with openssl enc -aes-256-cbc from "Seadent123".
	const password = "z6YOXQnSv41NttYEGQpyJw=="
	f := parse(t, text)
	if len(f.Warnings) != 1 || f.Warnings[0].Line != 7 {
		t.Errorf("warnings: %v", f.Warnings)
	}
	nodes, err := f.Cluster.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].SSH.Password(Sources{}); !errors.Is(err, errEncrypted) {
		t.Errorf("a bad text: %v", err)
	}
	s := nodes[0].SSH
	s.Passwd = NewSecret(password)
	if got, err := s.Password(Sources{}); got != "Seadent123" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.Passwd = NewSecret("${env:A}")
	if got, err := s.Password(Sources{Env: func(string) (string, bool) { return "plain", true }}); got != "plain" || err != nil {
		t.Errorf("a reference: %q, %v", got, err)
	}
}
