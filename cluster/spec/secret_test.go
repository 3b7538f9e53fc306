package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestSecretNeverPrints holds a password against all the ways in which a
// value is printed.
func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	type hidden struct{ s Secret }
	s := NewSecret(password)
	values := []any{
		s, &s, hidden{s}, &hidden{s}, []Secret{s}, map[string]Secret{"a": s},
		SSH{Passwd: s}, File{Cluster: Cluster{SSH: SSH{Passwd: s}, Hosts: []Host{{SSH: SSH{PkPasswd: s}}}}},
	}
	for _, v := range values {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, _ := json.Marshal(v)
		y, _ := yaml.Marshal(v)
		out.Write(append(j, y...))
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		text := out.String()
		if strings.Contains(text, password) || strings.Contains(text, fmt.Sprintf("%x", password)) {
			t.Errorf("%T reveals the password:\n%s", v, text)
		}
	}
	err := fmt.Errorf("connect: %w", errors.New(fmt.Sprint(s)))
	if strings.Contains(err.Error(), password) {
		t.Error(err)
	}
}

func TestSecretResolve(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, MaxSecretFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return "from env", name == "PW" }
	for _, c := range []struct {
		text, want string
		err        error
		fault      string
	}{
		{"", "", nil, ""},
		{"plain", "plain", nil, ""},
		{"${env:PW}", "from env", nil, ""},
		{"${file:" + file + "}", "from file", nil, ""},
		{"a${env:PW}", "a${env:PW}", nil, ""}, // a password may hold any letters
		{"${env:NO}", "", nil, "export it"},
		{"${file:/no/such}", "", fs.ErrNotExist, ""},
		{"${file:" + large + "}", "", nil, "larger than"},
		{Redacted, "", ErrRedacted, "${env:NAME}"},
	} {
		got, err := NewSecret(c.text).Resolve(Sources{Env: env})
		if got != c.want || c.err != nil && !errors.Is(err, c.err) || (c.fault != "" || c.err != nil) != (err != nil) ||
			err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}

func TestSecretSurvivesAsReferenceOnly(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"${env:A}": "${env:A}", "plain": Redacted} {
		b, _ := json.Marshal(SSH{Passwd: NewSecret(in)})
		var out SSH
		if err := json.Unmarshal(b, &out); err != nil || out.Passwd.String() != want || in == "plain" && !out.Passwd.Equal(NewSecret(Redacted)) {
			t.Errorf("%s: %s, %v", in, out.Passwd, err)
		}
	}
	if b, _ := json.Marshal(SSH{}); string(b) != "{}" {
		t.Errorf("%s", b)
	}
}
