package build

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
	"github.com/clusterimage/sealer/registry/platform"
)

const (
	// defaultPath is PATH after the rootfs's own directories.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// secretsDir is where a secret lies that names no target.
	secretsDir = "/run/secrets"
	maxSecret  = 512 << 10
)

// A runStep is a RUN instruction.
type runStep struct {
	in      *kubefile.Run
	args    map[string]string // ARG, as known here
	secrets []sandbox.File
}

func (st *runStep) title() string { return st.in.Keyword() + " " + st.in.Text() }

// planRun checks that the machine can run the command for the platform, and
// reads its secrets.
func (pb *platformBuild) planRun(in *kubefile.Run) (step, error) {
	st := &runStep{in: in, args: map[string]string{}}
	maps.Copy(st.args, parser.Predefined(pb.platform))
	maps.Copy(st.args, pb.config.Args.Parent)
	maps.Copy(st.args, pb.config.Args.Current)
	if !runnable(pb.platform) {
		return nil, pb.fault(in, fmt.Sprintf("this machine cannot run programs for %s", platform.String(pb.platform)),
			"install emulation (Debian: apt-get install qemu-user-static binfmt-support), or build this platform on such a machine", nil)
	}
	for _, m := range in.Mounts {
		s, err := pb.b.secret(m)
		if err != nil {
			return nil, pb.fault(in, err.Error(), "", err)
		}
		if s != nil {
			st.secrets = append(st.secrets, *s)
		}
	}
	return st, nil
}

// secret reads the secret of a mount; nil if it is neither given nor required.
func (b *builder) secret(m kubefile.Mount) (*sandbox.File, error) {
	given, ok := b.o.Secrets[m.ID]
	if !ok {
		if m.Required {
			return nil, fmt.Errorf("secret %s is required: give --secret id=%s,src=FILE", m.ID, m.ID)
		}
		return nil, nil
	}
	s := &sandbox.File{Path: cmp.Or(m.Target, path.Join(secretsDir, m.ID)), Mode: 0o400, Env: m.Env}
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

// command returns the arguments of the command and the files that it needs: a
// heredoc that begins with "#!" is a program, as in a Dockerfile.
func (st *runStep) command() (args []string, files []sandbox.File) {
	if st.in.Args != nil {
		return st.in.Args, nil
	}
	script := st.script()
	if len(st.in.Heredocs) == 1 && strings.HasPrefix(script, "#!") {
		return []string{scriptPath}, []sandbox.File{{Path: scriptPath, Mode: 0o755, Content: []byte(script)}}
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
// machine's own. They are part of the cache's key.
func (st *runStep) environment(pb *platformBuild) []string {
	env := map[string]string{}
	maps.Copy(env, st.args)
	maps.Copy(env, pb.config.Env)
	root := sandbox.Root
	if pb.b.o.Isolation == IsolationChroot {
		root = ""
	}
	own := root + "/bin:" + root + "/usr/bin:" + root + "/sbin:"
	env["PATH"] = own + cmp.Or(pb.config.Env["PATH"], defaultPath)
	env["HOME"] = cmp.Or(env["HOME"], "/tmp")
	if pb.b.o.SourceDateEpoch != nil {
		env["SOURCE_DATE_EPOCH"] = strconv.FormatInt(pb.b.when.Unix(), 10)
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// proxies returns the variables by which the machine reaches the network. They
// are not part of the cache's key.
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
func (st *runStep) network(pb *platformBuild) string {
	if n := st.in.Network; n != "" && n != "default" {
		return n
	}
	return cmp.Or(pb.b.o.RunNetwork, "host")
}

// run runs the command and makes a layer of its changes.
func (st *runStep) run(ctx context.Context, pb *platformBuild) error {
	if err := pb.settle(); err != nil {
		return err
	}
	layer, empty, err := pb.b.cachedRun(ctx, st, pb)
	if err != nil {
		return pb.fault(st.in, err.Error(), "", err)
	}
	if empty {
		return nil
	}
	pb.push(layer, image.ConfigLayer{Type: "RUN", Value: st.value()})
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

// flush emits the rest, a line without an end.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.emit(string(l.rest))
		l.rest = nil
	}
}
