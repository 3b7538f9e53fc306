package spec

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Redacted is printed in place of a Secret that was given as plain text. A file
// that holds it can be parsed; resolving the Secret fails.
const Redacted = "${redacted}"

// MaxSecretFile is the largest file, in bytes, that ${file:PATH} may name.
const MaxSecretFile = 64 << 10

// ErrRedacted is wrapped by Resolve where the value was not kept.
var ErrRedacted = errors.New("the value was not kept")

// reference matches ${env:NAME} and ${file:PATH}.
var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// A Secret is a password: plain text, ${env:NAME} or ${file:PATH}. Printing it
// in any way (fmt, JSON, YAML, slog) gives the reference, or Redacted for plain
// text. The value is read when Resolve is called, not before. The zero Secret
// is none.
type Secret struct {
	// The text lies behind a pointer, so that fmt, which cannot call methods of
	// values in unexported fields, prints an address.
	text *string
}

// NewSecret returns the Secret that a user wrote as text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// IsReference reports whether the secret is ${env:NAME} or ${file:PATH}: a
// name, which may be kept in plans and journals.
func (s Secret) IsReference() bool {
	if s.IsZero() {
		return false
	}
	m := reference.FindStringIndex(*s.text)
	return m != nil && m[0] == 0 && m[1] == len(*s.text)
}

// String returns the reference, Redacted for plain text, "" for none.
func (s Secret) String() string {
	switch {
	case s.IsZero():
		return ""
	case s.IsReference():
		return *s.text
	}
	return Redacted
}

// GoString is String, quoted.
func (s Secret) GoString() string { return fmt.Sprintf("spec.Secret(%q)", s.String()) }

// Format prints String, whatever the verb is.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String: a Secret of plain text does not survive encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML is String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalText is NewSecret.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// Equal reports whether both were written alike.
func (s Secret) Equal(o Secret) bool {
	if s.IsZero() || o.IsZero() {
		return s.IsZero() && o.IsZero()
	}
	return *s.text == *o.text
}

// Sources is where references are looked up. A nil field is the process's
// environment or the machine's files.
type Sources struct {
	Env      func(name string) (string, bool)
	ReadFile func(path string) ([]byte, error)
}

// Resolve returns the secret's value, "" for none. One newline at the end of a
// file is dropped. The error wraps ErrRedacted when the value was not kept.
func (s Secret) Resolve(from Sources) (string, error) {
	if s.IsZero() {
		return "", nil
	}
	if *s.text == Redacted {
		return "", fmt.Errorf("%w: give the flag again, or write ${env:NAME} or ${file:PATH} in the Clusterfile", ErrRedacted)
	}
	if !s.IsReference() {
		return *s.text, nil
	}
	return from.Expand(*s.text)
}

// HasReference reports whether text holds ${env:NAME} or ${file:PATH}.
func HasReference(text string) bool { return reference.MatchString(text) }

// Expand replaces each ${env:NAME} and ${file:PATH} of text. A name that is not
// set and a file that cannot be read are errors, all of them together; errors
// hold names, never values.
func (from Sources) Expand(text string) (string, error) {
	var errs []error
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		value, err := from.lookup(m[1], m[2])
		if err != nil {
			errs = append(errs, err)
		}
		return value
	})
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return out, nil
}

func (from Sources) lookup(kind, name string) (string, error) {
	if kind == "env" {
		env := from.Env
		if env == nil {
			env = os.LookupEnv
		}
		value, ok := env(name)
		if !ok {
			return "", fmt.Errorf("${env:%s}: the environment has no %s: export it and run again", name, name)
		}
		return value, nil
	}
	read := from.ReadFile
	if read == nil {
		read = readSecretFile
	}
	data, err := read(name)
	if err != nil {
		return "", fmt.Errorf("${file:%s}: %w", name, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSecretFile+1))
	if err == nil && len(data) > MaxSecretFile {
		err = fmt.Errorf("larger than %d bytes", MaxSecretFile)
	}
	return data, err
}

// Password returns the user's password, "" for none.
func (s SSH) Password(from Sources) (string, error) { return s.secret(s.Passwd, from) }

// KeyPassword returns the passphrase of the private key, "" for none.
func (s SSH) KeyPassword(from Sources) (string, error) { return s.secret(s.PkPasswd, from) }

func (s SSH) secret(v Secret, from Sources) (string, error) {
	if s.Encrypted && !v.IsZero() && !v.IsReference() && v.String() == Redacted {
		return decrypt(*v.text)
	}
	return v.Resolve(from)
}

// Secrets returns every secret of the cluster that is set.
func (f *File) Secrets() []Secret {
	c := &f.Cluster
	all := []Secret{c.SSH.Passwd, c.SSH.PkPasswd}
	for _, h := range c.Hosts {
		all = append(all, h.SSH.Passwd, h.SSH.PkPasswd)
	}
	if l := c.Registry.Local; l != nil {
		all = append(all, l.Password)
	}
	if e := c.Registry.External; e != nil {
		all = append(all, e.Password)
	}
	return slices.DeleteFunc(all, Secret.IsZero)
}
