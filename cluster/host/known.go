package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// An UnknownKey is a host key that no known_hosts file has.
type UnknownKey struct {
	Host        string // the name of the target
	Address     string // host:port
	Type        string // as ssh-ed25519
	Fingerprint string // SHA256:..., as ssh-keygen -l prints it

	key ssh.PublicKey
}

// An UnknownKeyError says that a host's key is not known.
type UnknownKeyError struct{ Key UnknownKey }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the host key of %s is not known: %s %s", e.Key.Address, e.Key.Type, e.Key.Fingerprint)
}

// A ChangedKeyError says that a host shows another key than the known one.
type ChangedKeyError struct {
	Address     string // host:port
	Type        string
	Fingerprint string // of the key that the host shows
	Known       string // the fingerprint that is known
	File        string // where; empty when the key was accepted in this run
	Line        int
}

func (e *ChangedKeyError) Error() string {
	s := fmt.Sprintf("the host key of %s has changed: it shows %s %s, known is %s", e.Address, e.Type, e.Fingerprint, e.Known)
	if e.File == "" {
		return s + ", accepted a moment ago: two machines answer at this address"
	}
	return s + fmt.Sprintf(" (%s:%d): another machine may be answering; if the host was made anew, run: ssh-keygen -f %s -R %s",
		e.File, e.Line, quote(e.File), quote(knownhosts.Normalize(e.Address)))
}

// known are the host keys that are trusted. It is safe for concurrent use.
type known struct {
	file  string // where new keys go
	check ssh.HostKeyCallback
	cas   map[string]bool // "file:line" of the lines that name an authority

	mu       sync.Mutex
	accepted map[string]ssh.PublicKey // by host:port; not in check yet
}

// openKnown reads the files. Only the default file, when files is nil, may be
// missing, or be made by the first key that is accepted.
func openKnown(files []string, home string, acceptNew bool) (*known, error) {
	def := filepath.Join(home, ".ssh", "known_hosts")
	k := &known{file: def, cas: map[string]bool{}, accepted: map[string]ssh.PublicKey{}}
	given := files != nil
	if !given {
		files = []string{def, "/etc/ssh/ssh_known_hosts"}
	} else if len(files) > 0 {
		k.file = files[0]
	}
	var there []string
	for i, f := range files {
		err := k.readAuthorities(f)
		switch {
		case err == nil:
			there = append(there, f)
		case errors.Is(err, os.ErrNotExist) && (!given || acceptNew && i == 0):
		default:
			return nil, fmt.Errorf("read known hosts: %w", err)
		}
	}
	check, err := knownhosts.New(there...)
	if err != nil {
		return nil, fmt.Errorf("read known hosts: %w", err)
	}
	k.check = check
	return k, nil
}

// readAuthorities notes the lines of a file that name an authority: the parser
// of knownhosts does not tell them from others.
func (k *known) readAuthorities(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if bytes.HasPrefix(bytes.TrimSpace(lines.Bytes()), []byte("@cert-authority")) {
			k.cas[file+":"+strconv.Itoa(n)] = true
		}
	}
	return lines.Err()
}

// verify checks the key that a target shows; its error is an *UnknownKeyError
// or a *ChangedKeyError, or says that the key is revoked or a certificate bad.
func (k *known) verify(t Target, key ssh.PublicKey) error {
	k.mu.Lock()
	accepted := k.accepted[t.addr()]
	k.mu.Unlock()
	if accepted != nil {
		if bytes.Equal(accepted.Marshal(), key.Marshal()) {
			return nil
		}
		return &ChangedKeyError{
			Address: t.addr(), Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key),
			Known: ssh.FingerprintSHA256(accepted),
		}
	}
	err := k.check(t.addr(), &net.TCPAddr{}, key)
	var keyErr *knownhosts.KeyError
	if !errors.As(err, &keyErr) {
		return err
	}
	want := slices.DeleteFunc(keyErr.Want, k.isAuthority)
	if len(want) == 0 {
		return &UnknownKeyError{UnknownKey{
			Host: t.name(), Address: t.addr(), Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key), key: key,
		}}
	}
	w := want[0]
	if i := slices.IndexFunc(want, func(w knownhosts.KnownKey) bool { return w.Key.Type() == key.Type() }); i >= 0 {
		w = want[i]
	}
	return &ChangedKeyError{
		Address: t.addr(), Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key),
		Known: ssh.FingerprintSHA256(w.Key), File: w.Filename, Line: w.Line,
	}
}

func (k *known) isAuthority(w knownhosts.KnownKey) bool {
	return k.cas[w.Filename+":"+strconv.Itoa(w.Line)]
}

// algorithms returns the key algorithms to ask a target for, best first. They
// are the algorithms of its known keys: a target with several keys then shows
// the known one. Nil leaves the choice to the library.
func (k *known) algorithms(t Target) []string {
	var keyErr *knownhosts.KeyError
	if !errors.As(k.check(t.addr(), &net.TCPAddr{}, nobody{}), &keyErr) {
		return nil
	}
	slices.SortFunc(keyErr.Want, func(a, b knownhosts.KnownKey) int { return a.Line - b.Line })
	var plain, certs []string
	for _, w := range keyErr.Want {
		if k.isAuthority(w) {
			certs = []string{
				ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
				ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
			}
			continue
		}
		plain = append(plain, signatures(w.Key.Type())...)
	}
	if len(plain) == 0 && certs != nil { // a host under an authority may have no certificate yet
		for _, kind := range []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA} {
			plain = append(plain, signatures(kind)...)
		}
	}
	return append(certs, plain...)
}

// signatures returns the algorithms that a type of key can sign with; SHA-1 is
// none of them.
func signatures(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// nobody is a key that nobody has.
type nobody struct{}

func (nobody) Type() string                        { return "none" }
func (nobody) Marshal() []byte                     { return nil }
func (nobody) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// accept trusts a key from now on and writes it to the first file. A key that
// another host accepted for the same address in the meantime stays.
func (k *known) accept(key UnknownKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accepted[key.Address] != nil {
		return nil
	}
	k.accepted[key.Address] = key.key
	if err := appendLine(k.file, knownhosts.Line([]string{key.Address}, key.key)); err != nil {
		return fmt.Errorf("remember the host key of %s: %w", key.Address, err)
	}
	return nil
}

// appendLine adds a line to a file whose last line may lack its end.
func appendLine(file, line string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err := f.Seek(0, 2); err != nil {
		return err
	} else if size > 0 {
		end := make([]byte, 1)
		if _, err := f.ReadAt(end, size-1); err != nil {
			return err
		}
		if end[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = f.WriteString(line + "\n")
	return err
}
