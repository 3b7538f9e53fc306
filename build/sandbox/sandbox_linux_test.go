package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/rootfs"
)

// The test binary is the program that Start starts, and the command that tries
// what a sandbox allows.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildArgument {
		os.Exit(Child())
	}
	if len(os.Args) > 1 && os.Args[1] == probeArgument {
		probe(os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A row is one of the table in docs/kubefile.md: an ability, whether a command
// has it in each isolation, and the attempts that show it.
type row struct {
	ability, host, chroot string
	attempts              []string
}

// The cells of the table.
const (
	yes    = "yes"
	no     = "no"
	net0   = "with `--run-network=host`"
	seems  = "it seems so, and nothing changes"
	during = "while it runs, if sealer runs as root"
)

func table(names probed) []row {
	return []row{
		{"read the machine's programs, libraries and settings: /usr, /opt, /etc, /nix, /gnu", yes, no, []string{"read /etc/passwd", "read /usr/bin"}},
		{"read there what not every user may read: password hashes, private keys", no, no, []string{"read /etc/shadow", "read /etc/gshadow"}},
		{"read other files of the machine: /root, /home, /var, /srv, /boot, /sys, /tmp, /run, sealer's store", no, no, []string{
			"read /root", "read /home", "read /var/lib", "read /var/log", "read /srv", "read /boot", "read /sys/kernel", "read " + names.file, "read " + names.hidden,
		}},
		{"write the rootfs, and /tmp, /run and /dev/shm of its own", yes, yes, []string{"write rootfs", "write /tmp/file", "write /run/file", "write /dev/shm/file", "write /dev/null"}},
		{"write the machine's files", no, no, []string{"overwrite /usr/bin/env", "overwrite /etc/passwd"}},
		{"set the machine's parameters in /proc, read its memory and keys there", no, no, []string{"set core_pattern", "set swappiness", "read /proc/kcore", "read /proc/keys"}},
		{"change the owner of a file (layers record root)", seems, during, []string{"own"}},
		{"reach the machine's network", net0, net0, []string{"dial tcp " + names.tcp}},
		{"listen on a loopback interface", yes, yes, []string{"listen on loopback"}},
		{"reach the machine's abstract sockets, socket files and virtual machines", no, no, []string{"dial abstract " + names.name, "dial unix " + names.socket, "dial vsock"}},
		{"see or signal processes of the machine", no, no, []string{"signal " + names.pid, "read environment of 1"}},
		{"start and signal processes of its own, 8192 at a time", yes, yes, []string{"signal child"}},
		{"use the kernel's keyrings", no, no, []string{"add key", "read key"}},
		{"make device nodes, mount, make namespaces, trace processes, load code into the kernel, use io_uring, restart the machine", no, no, []string{
			"make device", "call bpf", "call clone newuser", "call clone3", "call io_uring_setup", "call kexec_load", "call mount", "call open_tree",
			"call perf_event_open", "call ptrace", "call reboot", "call setns", "call unshare", "call userfaultfd",
		}},
	}
}

// TestTableIsDocumented compares docs/kubefile.md with the table.
func TestTableIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/kubefile.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table(probed{}) {
		if line := fmt.Sprintf("\n| %s | %s | %s |\n", r.ability, r.host, r.chroot); !strings.Contains(string(doc), line) {
			t.Errorf("docs/kubefile.md lacks the line%s", line)
		}
	}
}

// probed are the things of the machine that a sandbox tries to reach.
type probed struct{ file, hidden, tcp, name, socket, pid string }

func TestAllowed(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	for _, u := range []users{mappedUsers, oneUser, machineUsers} {
		for _, chroot := range []bool{false, true} {
			for _, alone := range []bool{false, true} {
				t.Run(fmt.Sprintf("users %d, chroot %v, no network %v", u, chroot, alone), func(t *testing.T) {
					t.Parallel()
					allowed(t, u, Options{Chroot: chroot, NoNetwork: alone})
				})
			}
		}
	}
}

func allowed(t *testing.T, u users, o Options) {
	names := serve(t)
	o.Hide = []string{names.hidden}
	args := []string{"/bin/probe", probeArgument}
	if !o.Chroot {
		args[0] = Root + "/bin/probe"
	}
	want := map[string]bool{}
	for _, r := range table(names) {
		cell := r.host
		if o.Chroot {
			cell = r.chroot
		}
		for _, attempt := range r.attempts {
			args = append(args, attempt)
			want[attempt] = cell == yes || cell == net0 && !o.NoNetwork || cell == during && u != oneUser
		}
	}
	out, err := runAs(t, []users{u}, o, Command{Layers: []string{probeLayer(t)}, Args: args, Env: []string{"PATH=/bin:/usr/bin"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		attempt, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		expected, ok := want[attempt]
		if got := result == "allowed"; !ok || got != expected {
			t.Errorf("%s: %s; want allowed %v", attempt, result, expected)
		}
		delete(want, attempt)
	}
	if len(want) > 0 {
		t.Errorf("no result of %v", want)
	}
}

// serve makes the things of the machine that table names.
func serve(t *testing.T) probed {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sealer-sandbox-") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := probed{
		file: filepath.Join(dir, "file"), socket: filepath.Join(dir, "socket"), hidden: "/usr/share",
		name: "@" + filepath.Base(dir), pid: fmt.Sprint(os.Getpid()),
	}
	if err := os.WriteFile(p.file, []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	for network, address := range map[string]*string{"tcp": &p.tcp, "unix": &p.socket, "unix abstract": &p.name} {
		kind, _, _ := strings.Cut(network, " ")
		at := *address
		if kind == "tcp" {
			at = "127.0.0.1:0"
		}
		l, err := net.Listen(kind, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		*address = l.Addr().String()
		if kind == "unix" && network == "unix" {
			if err := os.Chmod(at, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

func runAs(t *testing.T, u []users, o Options, c Command) (string, error) {
	t.Helper()
	o.Dir = t.TempDir()
	var out bytes.Buffer
	o.Output = &out
	s, err := startAs(t.Context(), o, u)
	if err != nil {
		return "", err
	}
	defer s.Close()
	err = s.Run(c)
	return out.String(), err
}

// probeLayer makes a rootfs of this test and the libraries that it needs with
// the race detector.
func probeLayer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	put := func(from, to string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(self, "bin/probe")
	out, _ := exec.CommandContext(t.Context(), "ldd", self).Output() // fails for a static program
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
		put(library, library)
	}
	return dir
}

func needsMounts(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || !may(unix.CAP_SYS_ADMIN) || rootfs.UserXattr() {
		t.Skip("needs root and the right to mount")
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	for name, tc := range map[string]struct {
		o    Options
		c    Command
		want string
	}{
		"exit code":        {c: Command{Args: []string{"/bin/sh", "-c", "exit 7"}}, want: "the command ended with exit code 7"},
		"signal":           {c: Command{Args: []string{"/bin/sh", "-c", "kill -9 $$"}}, want: "the command was ended by signal 9"},
		"no program":       {c: Command{Args: []string{"sealer-none"}, Env: []string{"PATH=/bin"}}, want: "start sealer-none: not found on PATH"},
		"no rootfs":        {o: Options{Chroot: true}, c: Command{Args: []string{"/bin/sh"}}, want: "with --isolation=chroot the rootfs must bring it"},
		"missing layer":    {c: Command{Layers: []string{"/none/a"}, Args: []string{"true"}}, want: "clone the mount of /none"},
		"no such sublayer": {c: Command{Layers: []string{"/usr/sealer-none"}, Args: []string{"true"}}, want: "mount the rootfs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := runAs(t, possibleUsers(), tc.o, tc.c)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want %s", err, tc.want)
			}
			var exit *ExitError
			if errors.As(err, &exit) != strings.HasPrefix(tc.want, "the command") {
				t.Errorf("Run = %v: it is no *ExitError, or wrongly one", err)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := Start(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("no more time")
	cancel(reason)
	if err := s.Run(Command{Args: []string{"/bin/sh", "-c", "sleep 100"}}); !errors.Is(err, reason) {
		t.Errorf("Run = %v, want %v", err, reason)
	}
	s.Close()
}

// TestCloseWithoutRun ends the process of a sandbox that is not used.
func TestCloseWithoutRun(t *testing.T) {
	t.Parallel()
	needsMounts(t)
	s, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := unix.Kill(s.pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the process %d is there: %v", s.pid, err)
	}
}
