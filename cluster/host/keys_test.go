package host_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
)

// key makes a private key file and returns its line of authorized_keys.
func key(t *testing.T, file, passphrase string) (authorized string, private ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(k)), private
}

func TestKeys(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	plain, _ := key(t, dir+"/plain", "")
	locked, _ := key(t, dir+"/locked", "open sesame")
	usual, _ := key(t, home+"/.ssh/id_ed25519", "")
	key(t, dir+"/other", "")
	if err := os.WriteFile(dir+"/junk", []byte("PRIVATE junk-content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		authorized string
		change     func(*host.Target)
		want       string // part of the error; "" is none
	}{
		"plain":            {plain, func(x *host.Target) { x.Keys = []string{dir + "/other", dir + "/plain"} }, ""},
		"passphrase":       {locked, func(x *host.Target) { x.Keys, x.Passphrase = []string{dir + "/locked"}, "open sesame" }, ""},
		"no passphrase":    {locked, func(x *host.Target) { x.Keys = []string{dir + "/locked"} }, "locked: it is encrypted: give its passphrase (--pk-passwd)"},
		"wrong passphrase": {locked, func(x *host.Target) { x.Keys, x.Passphrase = []string{dir + "/locked"}, "wr0ng-phrase" }, "the passphrase does not open it"},
		"usual":            {usual, func(*host.Target) {}, ""},
		"refused":          {plain, func(x *host.Target) { x.Keys = []string{dir + "/other"} }, "was not let in (tried: none publickey)"},
		"junk":             {plain, func(x *host.Target) { x.Keys = []string{dir + "/junk"} }, "junk: it is no private key"},
		"missing":          {plain, func(x *host.Target) { x.Keys = []string{dir + "/none"} }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := (&hosttest.Machine{Name: "n1", AuthorizedKeys: []string{tt.authorized}}).Start(t)
			target := m.Target()
			tt.change(&target)
			h, err := dialer(t, host.Options{Home: home}, m).Connect(t.Context(), target)
			if err == nil {
				h.Close()
			}
			got := fmt.Sprint(err)
			if (tt.want == "") != (err == nil) || !strings.Contains(got, tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if strings.Contains(got, "sesame") || strings.Contains(got, "wr0ng") || strings.Contains(got, "junk-content") {
				t.Errorf("a secret is in %s", got)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	authorized, private := key(t, t.TempDir()+"/k", "")
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, c)
		}
	}()
	m := (&hosttest.Machine{AuthorizedKeys: []string{authorized}}).Start(t)
	connect(t, dialer(t, host.Options{Agent: socket}, m), m.Target())
	_, err = dialer(t, host.Options{Agent: socket + "-gone"}, m).Connect(t.Context(), m.Target())
	if err == nil || !strings.Contains(err.Error(), "ask the agent: dial unix") {
		t.Error(err)
	}
}

// knownFile writes known_hosts and makes a Dialer that has only it.
func knownFile(t *testing.T, content string) *host.Dialer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dialer(t, host.Options{KnownHosts: []string{file}, Home: t.TempDir()})
}

func TestKnownHostsForms(t *testing.T) {
	t.Parallel()
	_, caKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := ssh.NewSignerFromKey(caKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(principal string) func(ssh.PublicKey) *ssh.Certificate {
		return func(k ssh.PublicKey) *ssh.Certificate {
			c := &ssh.Certificate{Key: k, CertType: ssh.HostCert, ValidPrincipals: []string{principal}, ValidBefore: ssh.CertTimeInfinity}
			if err := c.SignCert(rand.Reader, ca); err != nil {
				t.Error(err)
			}
			return c
		}
	}
	_, ecdsaLike, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ssh.NewSignerFromKey(ecdsaLike)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		certificate func(ssh.PublicKey) *ssh.Certificate
		known       func(m *hosttest.Machine, addr string) string
		want        string
	}{
		"plain": {known: func(m *hosttest.Machine, _ string) string { return "# x\n\n" + m.KnownHosts() }},
		"hashed": {known: func(m *hosttest.Machine, addr string) string {
			_, rest, _ := strings.Cut(m.KnownHosts(), " ")
			return knownhosts.HashHostname(knownhosts.Normalize(addr)) + " " + rest
		}},
		"second of two": {known: func(m *hosttest.Machine, addr string) string {
			return knownhosts.Line([]string{"elsewhere"}, foreign.PublicKey()) + "\n" + m.KnownHosts()
		}},
		"changed": {known: func(_ *hosttest.Machine, addr string) string {
			return knownhosts.Line([]string{addr}, foreign.PublicKey())
		}, want: "has changed"},
		"revoked": {known: func(m *hosttest.Machine, _ string) string { return "@revoked " + m.KnownHosts() }, want: "revoked"},
		"authority": {certificate: certificate("127.0.0.1"), known: func(_ *hosttest.Machine, addr string) string {
			return "@cert-authority " + knownhosts.Normalize(addr) + " " + string(ssh.MarshalAuthorizedKey(ca.PublicKey()))
		}},
		"authority, other name": {certificate: certificate("n9"), known: func(_ *hosttest.Machine, addr string) string {
			return "@cert-authority " + knownhosts.Normalize(addr) + " " + string(ssh.MarshalAuthorizedKey(ca.PublicKey()))
		}, want: "principal"},
		"other authority": {certificate: certificate("127.0.0.1"), known: func(_ *hosttest.Machine, addr string) string {
			return "@cert-authority " + knownhosts.Normalize(addr) + " " + string(ssh.MarshalAuthorizedKey(foreign.PublicKey()))
		}, want: "no authorities"},
		"authority, host without a certificate": {known: func(_ *hosttest.Machine, addr string) string {
			return "@cert-authority " + knownhosts.Normalize(addr) + " " + string(ssh.MarshalAuthorizedKey(ca.PublicKey()))
		}, want: "is not known"},
		"authority and plain key": {known: func(m *hosttest.Machine, addr string) string {
			return "@cert-authority " + knownhosts.Normalize(addr) + " " + string(ssh.MarshalAuthorizedKey(ca.PublicKey())) + m.KnownHosts()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := (&hosttest.Machine{Password: secret, HostCertificate: tt.certificate}).Start(t)
			target := m.Target()
			d := knownFile(t, tt.known(m, fmt.Sprintf("%s:%d", target.Address, target.Port)))
			h, err := d.Connect(t.Context(), target)
			if err == nil {
				h.Close()
			}
			if (tt.want == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestKnownHostsFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "dir", "known_hosts")
	if _, err := host.NewDialer(host.Options{KnownHosts: []string{missing}}); err == nil {
		t.Error("a file that was named is missing, and nothing is said")
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("n1 ssh-ed25519 !!!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.NewDialer(host.Options{KnownHosts: []string{bad}}); err == nil || !strings.Contains(err.Error(), bad+":1") {
		t.Error(err)
	}
	// New keys go to the first file, whose last line lacks its end.
	m := (&hosttest.Machine{Password: secret}).Start(t)
	old := filepath.Join(t.TempDir(), "old")
	before := "# the last line"
	if err := os.WriteFile(old, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{missing, old} {
		connect(t, dialer(t, host.Options{KnownHosts: []string{file}, AcceptNew: true}), m.Target())
		connect(t, dialer(t, host.Options{KnownHosts: []string{file}}), m.Target())
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != before+"\n"+m.KnownHosts() {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(missing); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
