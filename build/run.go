package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

const (
	// runRoot is where RUN sees the rootfs. It is the same on every machine,
	// so that what a command prints or writes of it is, too.
	runRoot = "/mnt/rootfs"
	// defaultPath is PATH after the rootfs's own directories.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// secretsDir is where a secret lies that names no target.
	secretsDir = "/run/secrets"
	maxSecret  = 512 << 10
)

// A runStep is RUN.
type runStep struct {
	in      *kubefile.Run
	args    map[string]string // ARG, as known here
	secrets []runSecret
}

// A runSecret is a file, or a variable, that RUN sees and no layer does.
type runSecret struct {
	Path    string
	Mode    os.FileMode
	Env     string
	Content []byte
}

func (st *runStep) title() string { return st.in.Keyword() + " " + st.in.Text() }

// planRun checks that the machine can run the command for the platform, and
// reads its secrets.
func (t *target) planRun(in *kubefile.Run) (step, error) {
	st := &runStep{in: in, args: map[string]string{}}
	maps.Copy(st.args, parser.Predefined(t.platform))
	maps.Copy(st.args, t.config.Args.Parent)
	maps.Copy(st.args, t.config.Args.Current)
	if !runnable(t.platform) {
		return nil, t.fault(in, fmt.Sprintf("this machine cannot run programs for %s", platform.String(t.platform)),
			"install emulation (Debian: apt-get install qemu-user-static binfmt-support), or build this platform on such a machine", nil)
	}
	for _, m := range in.Mounts {
		s, err := t.b.secret(m)
		if err != nil {
			return nil, t.fault(in, err.Error(), "", err)
		}
		if s != nil {
			st.secrets = append(st.secrets, *s)
		}
	}
	return st, nil
}

// secret reads what --secret gives for a mount; nil when it is not given and
// not required.
func (b *builder) secret(m kubefile.Mount) (*runSecret, error) {
	given, ok := b.o.Secrets[m.ID]
	if !ok {
		if m.Required {
			return nil, fmt.Errorf("secret %s is required: give --secret id=%s,src=FILE", m.ID, m.ID)
		}
		return nil, nil
	}
	s := &runSecret{Path: orDefault(m.Target, path.Join(secretsDir, m.ID)), Mode: 0o400, Env: m.Env}
	if m.Env != "" && m.Target == "" {
		s.Path = ""
	}
	if m.Mode != "" {
		n, err := strconv.ParseUint(m.Mode, 8, 32)
		if err != nil {
			return nil, err
		}
		s.Mode = os.FileMode(n)
	}
	if given.File == "" {
		v, ok := os.LookupEnv(given.Env)
		if !ok {
			return nil, fmt.Errorf("secret %s: the environment has no %s", m.ID, given.Env)
		}
		s.Content = []byte(v)
		return s, nil
	}
	f, err := os.Open(given.File)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", m.ID, err)
	}
	defer f.Close()
	if s.Content, err = readLimited(f, maxSecret); err != nil {
		return nil, fmt.Errorf("secret %s: %w", m.ID, err)
	}
	return s, nil
}

// runnable reports whether the machine runs programs for p, by itself or
// through binfmt_misc.
func runnable(p ocispec.Platform) bool {
	host := platform.Default()
	if p.OS != host.OS {
		return false
	}
	if platform.Match(host, p) || host.Architecture == "amd64" && p.Architecture == "386" {
		return true
	}
	names := map[string]string{
		"amd64": "x86_64", "arm64": "aarch64", "386": "i386", "ppc64le": "ppc64le", "s390x": "s390x",
		"riscv64": "riscv64", "arm": "arm", "mips64le": "mips64el", "loong64": "loongarch64",
	}
	state, err := os.ReadFile("/proc/sys/fs/binfmt_misc/qemu-" + names[p.Architecture])
	return err == nil && strings.HasPrefix(string(state), "enabled")
}

// scriptPath is where a heredoc lies that names its own interpreter.
const scriptPath = "/run/script"

// command returns what is executed, and the files that it needs: a heredoc that
// begins with "#!" is a program, as in a Dockerfile.
func (st *runStep) command() (args []string, files []runSecret) {
	if st.in.Args != nil {
		return st.in.Args, nil
	}
	script := st.script()
	if len(st.in.Heredocs) == 1 && strings.HasPrefix(script, "#!") {
		return []string{scriptPath}, []runSecret{{Path: scriptPath, Mode: 0o755, Content: []byte(script)}}
	}
	return []string{"/bin/sh", "-c", script}, nil
}

// script returns the shell's text: a heredoc that stands alone is the script
// itself, others belong to the command line.
func (st *runStep) script() string {
	h := st.in.Heredocs
	if len(h) == 1 && strings.Trim(strings.TrimPrefix(strings.TrimPrefix(st.in.Command, "<<"), "-"), `"'`) == h[0].Name {
		return h[0].Body()
	}
	script := st.in.Command
	for _, d := range h {
		script += "\n" + strings.TrimSuffix(d.Content, "\n") + "\n" + d.Name
	}
	return script
}

// environment returns the variables of the command, sorted, without the
// machine's own: those that belong to the cache's key.
func (st *runStep) environment(t *target) []string {
	env := map[string]string{}
	maps.Copy(env, st.args)
	maps.Copy(env, t.config.Env)
	root := runRoot
	if t.b.o.Isolation == IsolationChroot {
		root = ""
	}
	own := root + "/bin:" + root + "/usr/bin:" + root + "/sbin:"
	env["PATH"] = own + orDefault(t.config.Env["PATH"], defaultPath)
	env["HOME"] = orDefault(env["HOME"], "/tmp")
	if t.b.o.SourceDateEpoch != nil {
		env["SOURCE_DATE_EPOCH"] = strconv.FormatInt(t.b.when.Unix(), 10)
	}
	var out []string
	for _, k := range sortedKeys(env) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// proxies returns the variables by which the machine reaches the network. They
// are no part of what is built.
func proxies() []string {
	var out []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"} {
		for _, n := range []string{name, strings.ToLower(name)} {
			if v, ok := os.LookupEnv(n); ok {
				out = append(out, n+"="+v)
			}
		}
	}
	return out
}

// network returns host or none.
func (st *runStep) network(t *target) string {
	if n := st.in.Network; n != "" && n != "default" {
		return n
	}
	return orDefault(t.b.o.RunNetwork, "host")
}

// run runs the command and makes a layer of what it changed.
func (st *runStep) run(ctx context.Context, t *target) error {
	if err := t.settle(); err != nil {
		return err
	}
	layer, empty, err := t.b.cachedRun(ctx, st, t)
	if err != nil {
		return t.fault(st.in, err.Error(), "", err)
	}
	if empty {
		return nil
	}
	t.push(layer, store.ConfigLayer{Type: "RUN", Value: st.value()})
	return nil
}

// value is the command as the image records it.
func (st *runStep) value() string {
	v := st.in.Text()
	if len(st.in.Heredocs) > 0 && st.in.Args == nil {
		v = st.script()
	}
	const limit = 4096
	if len(v) > limit {
		v = v[:limit] + "..."
	}
	return v
}

// lines cuts a stream into lines and hands on each.
type lines struct {
	emit func(line string)
	rest []byte
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	const longest = 64 << 10
	l.rest = append(l.rest, p...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 && len(l.rest) < longest {
			return len(p), nil
		}
		if i < 0 {
			i = longest - 1
			l.emit(string(l.rest[:i+1]))
		} else {
			l.emit(strings.TrimSuffix(string(l.rest[:i]), "\r"))
		}
		l.rest = l.rest[i+1:]
	}
}

// flush hands on what no line end followed.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.emit(string(l.rest))
		l.rest = nil
	}
}
