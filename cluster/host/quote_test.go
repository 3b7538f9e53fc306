package host

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shellWords returns the words that sh takes line apart into.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("sh -c %q: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func TestQuote(t *testing.T) {
	t.Parallel()
	args := []string{"plain-1.2/x:@%+,_", "", "a b", "it's", "$HOME `id` $(id)", "\n\t\\", "*?[a]~", "!x", "a=b", "é", "#c", "-n", "''", `"`, ";&|<>"}
	if diff := cmp.Diff(args, shellWords(t, Quote(args...))); diff != "" {
		t.Error(diff)
	}
	if got := Quote("ls", "-l", "/var/lib"); got != "ls -l /var/lib" {
		t.Errorf("plain words are quoted: %s", got)
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("it's", "\\'")
	f.Add("", "\n")
	f.Add("$(x)", "\xff\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) {
			t.Skip("Command.check refuses it")
		}
		if diff := cmp.Diff([]string{a, b}, shellWords(t, Quote(a, b))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestScriptRunsAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Command{Args: []string{"sh", "-c", `printf '%s|%s|%s' "$PWD" "$V" "$1"`, "x", "a'b"}, Env: []string{"V=$x y"}, Dir: dir}
	out, err := exec.Command("sh", "-c", c.script()).Output()
	if err != nil || string(out) != dir+"|$x y|a'b" {
		t.Errorf("%s\n%q, %v", c.script(), out, err)
	}
}

func TestCommandCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		c    Command
		want string
	}{
		{Command{}, "the command is empty"},
		{Command{Args: []string{""}}, "the command is empty"},
		{Command{Args: []string{"a\x00b"}}, "zero byte"},
		{Command{Args: []string{"a"}, Env: []string{"novalue"}}, `environment "novalue"`},
		{Command{Args: []string{"a"}, Env: []string{"A;id=x"}}, `environment "A;id"`},
		{Command{Args: []string{"a"}, Env: []string{"1A=x"}}, `environment "1A"`},
	} {
		if err := tt.c.check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.c, err, tt.want)
		}
	}
}
