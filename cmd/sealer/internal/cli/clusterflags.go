package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

// passwordVariable holds the password of --passwd where that is not given.
const passwordVariable = "SEALER_SSH_PASSWORD"

// clusterFlags are the flags that describe the wanted cluster.
type clusterFlags struct {
	spec.Flags
	file             string // --Clusterfile
	passwd, pkPasswd string
	env, cmdArgs     []string
	verify           keyFlag
}

func (o *clusterFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "Clusterfile", "f", "", "a Clusterfile; flags win over it")
	f.StringVarP(&o.Name, "cluster-name", "c", "", `the cluster's name (default "`+spec.DefaultName+`")`)
	f.StringVarP(&o.Masters, "masters", "m", "", "the masters' addresses: `a,b`, a-b, address:port")
	f.StringVarP(&o.Nodes, "nodes", "n", "", "the workers' addresses: `a,b`, a-b, address:port")
	f.StringVarP(&o.User, "user", "u", "", `the user of ssh (default "root")`)
	f.StringVarP(&o.passwd, "passwd", "p", "", "the user's password; - asks for it (default: "+passwordVariable+" of the environment)")
	f.IntVar(&o.Port, "port", 0, "the port of ssh (default 22)")
	f.StringVar(&o.Pk, "pk", "", "the `file` of the private key for ssh")
	f.StringVar(&o.pkPasswd, "pk-passwd", "", "the private key's passphrase; - asks for it")
	f.StringArrayVarP(&o.env, "env", "e", nil, "`KEY=VALUE` for templates, scripts and start commands; again for more, and for lists")
	f.StringArrayVar(&o.cmdArgs, "cmd-args", nil, "`KEY=VALUE` for the build arguments that CMD uses")
	f.StringArrayVar(&o.Cmds, "cmds", nil, "a `command` to run instead of the image's; again for more")
	f.StringSliceVar(&o.Apps, "apps", nil, "start only these applications of the image")
	_ = cmd.MarkFlagFilename("Clusterfile") // it exists
}

// layers returns the user's settings: the flags first, then the Clusterfile.
func (o *clusterFlags) layers(a *app) ([]*spec.File, error) {
	o.Env, o.CmdArgs = keyValues(o.env), keyValues(o.cmdArgs)
	for _, s := range []struct {
		flag, text, variable string
		to                   *spec.Secret
	}{{"--passwd", o.passwd, passwordVariable, &o.Passwd}, {"--pk-passwd", o.pkPasswd, "", &o.PkPasswd}} {
		if s.text == "-" {
			var err error
			if s.text, err = a.askSecret(s.flag); err != nil {
				return nil, err
			}
		} else if _, set := os.LookupEnv(s.variable); s.text == "" && s.variable != "" && set {
			s.text = "${env:" + s.variable + "}"
		}
		*s.to = spec.NewSecret(s.text)
	}
	flags, err := o.File()
	if err != nil {
		return nil, usageError{err}
	}
	if o.file == "" {
		return []*spec.File{flags}, nil
	}
	file, err := readClusterfile(o.file)
	return []*spec.File{flags, file}, err
}

func readClusterfile(name string) (*spec.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read Clusterfile: %w", err)
	}
	return spec.Parse(name, text)
}

// joined matches the beginning of a second KEY=VALUE after a comma.
var joined = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=`)

// keyValues takes A=1,B=2 apart, as older versions of sealer did; a comma
// inside a value stays.
func keyValues(args []string) []string {
	var out []string
	for _, a := range args {
		parts := strings.Split(a, ",")
		for _, p := range parts[1:] {
			if !joined.MatchString(p) {
				parts = []string{a}
				break
			}
		}
		out = append(out, parts...)
	}
	return out
}

// askSecret reads a password from the terminal, or a line of stdin.
func (a *app) askSecret(flag string) (string, error) {
	if f, ok := a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		printf(a.Err, "%s: ", strings.TrimLeft(flag, "-"))
		b, err := term.ReadPassword(int(f.Fd()))
		printLine(a.Err)
		return string(b), err
	}
	line, err := bufio.NewReader(io.LimitReader(a.In, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read %s from stdin: %w", flag, err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fmt.Errorf("read %s from stdin: it is empty", flag)
	}
	return line, nil
}

// imageClusterfile returns the image's own etc/Clusterfile, or nil.
func imageClusterfile(ctx context.Context, s *store.Store, im *store.Image) (*spec.File, error) {
	root, err := s.Rootfs(im.LayerIDs())
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(root, "etc/Clusterfile")
	if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read the image's etc/Clusterfile: %w", err)
	}
	f, err := spec.Parse("etc/Clusterfile of the image", text)
	if err != nil {
		return nil, err
	}
	f.Cluster.Image = "" // an image cannot know its name
	return f, nil
}

// imageEnv is the environment of the image's configuration (ENV of its Kubefile)
// as a layer below every Clusterfile.
func imageEnv(im *store.Image) *spec.File {
	f := &spec.File{}
	for _, k := range slices.Sorted(maps.Keys(im.Config.Env)) {
		f.Cluster.Env = append(f.Cluster.Env, k+"="+im.Config.Env[k])
	}
	return f
}

// warnSpec prints the warnings of a Clusterfile.
func (a *app) warnSpec(f *spec.File) {
	for _, w := range f.Warnings {
		printf(a.Err, "Warning: %v\n", w)
	}
}
