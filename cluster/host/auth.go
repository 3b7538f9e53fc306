package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// errAsked ends a keyboard-interactive login that asks a second time: the
// password was wrong, and another try may lock the account.
var errAsked = errors.New("the password was asked for again")

// authentication returns the methods for a target, the most wanted first, and
// notes on the user's keys and agent that could not be used.
func (d *Dialer) authentication(t Target) (methods []ssh.AuthMethod, notes []string, err error) {
	signers, notes, err := d.signers(t)
	if err != nil {
		return nil, nil, err
	}
	if len(signers) > 0 {
		methods = append(methods, ssh.PublicKeys(signers...))
	}
	if t.Password != "" {
		methods = append(methods, ssh.Password(t.Password), ssh.KeyboardInteractive(answer(t.Password)))
	}
	if len(methods) == 0 {
		return nil, nil, &AuthError{Target: t.label(), User: t.user(), Notes: append(notes, "there is no key, no agent and no password")}
	}
	return methods, notes, nil
}

// answer gives the password to the first question that hides its answer.
func answer(password string) ssh.KeyboardInteractiveChallenge {
	asked := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range questions {
			if echos[i] {
				continue
			}
			if asked {
				return nil, errAsked
			}
			asked, answers[i] = true, password
		}
		return answers, nil
	}
}

// signers returns the keys to try: the keys given, else, where no password was
// given, the agent's and the usual files.
func (d *Dialer) signers(t Target) (signers []ssh.Signer, notes []string, err error) {
	for _, file := range t.Keys {
		s, err := readKey(file, t.Passphrase)
		if err != nil {
			return nil, nil, err
		}
		signers = append(signers, s)
	}
	if len(t.Keys) > 0 || t.Password != "" {
		return signers, nil, nil
	}
	if !t.NoAgent {
		if signers, err = d.agentSigners(); err != nil {
			notes = append(notes, err.Error())
		}
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		file := filepath.Join(d.home, ".ssh", name)
		s, err := readKey(file, t.Passphrase)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			notes = append(notes, err.Error())
		case !slices.ContainsFunc(signers, func(o ssh.Signer) bool { return sameKey(o, s) }):
			signers = append(signers, s)
		}
	}
	return signers, notes, nil
}

func sameKey(a, b ssh.Signer) bool {
	return string(a.PublicKey().Marshal()) == string(b.PublicKey().Marshal())
}

// readKey reads a private key file. Its errors name the file, never its bytes.
func readKey(file, passphrase string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	s, err := ssh.ParsePrivateKey(b)
	var missing *ssh.PassphraseMissingError
	if !errors.As(err, &missing) {
		if err != nil {
			return nil, fmt.Errorf("read key %s: it is no private key in a format of OpenSSH or PEM", file)
		}
		return s, nil
	}
	if passphrase == "" {
		return nil, fmt.Errorf("read key %s: it is encrypted: give its passphrase (--pk-passwd), or add it to an agent", file)
	}
	if s, err = ssh.ParsePrivateKeyWithPassphrase(b, []byte(passphrase)); err != nil {
		return nil, fmt.Errorf("read key %s: the passphrase does not open it", file)
	}
	return s, nil
}

// agentSigners returns the keys of the agent, asked once for all hosts.
func (d *Dialer) agentSigners() ([]ssh.Signer, error) {
	d.agentOnce.Do(func() {
		if d.opts.Agent == "" {
			return
		}
		conn, err := net.Dial("unix", d.opts.Agent)
		if err != nil {
			d.agentErr = fmt.Errorf("ask the agent: %w", err)
			return
		}
		d.agentConn = conn
		if d.agentKeys, err = agent.NewClient(conn).Signers(); err != nil {
			d.agentErr = fmt.Errorf("ask the agent: %w", err)
		}
	})
	return slices.Clone(d.agentKeys), d.agentErr
}

// An AuthError says that a host did not let the user in.
type AuthError struct {
	Target string   // name and address
	User   string   // the user's name there
	Tried  string   // the methods, as the library lists them
	Notes  []string // keys that could not be used, and why
}

func (e *AuthError) Error() string {
	s := fmt.Sprintf("connect %s: user %s was not let in", e.Target, e.User)
	if e.Tried != "" {
		s += " (tried: " + e.Tried + ")"
	}
	for _, n := range e.Notes {
		s += "; " + n
	}
	return s
}
