package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/registry/remote"
)

// maxPassword bounds a password read from stdin. Tokens of cloud registries have
// a few kilobytes.
const maxPassword = 64 << 10

func (a *app) login() *cobra.Command {
	var r registryFlags
	var user string
	var fromStdin bool
	cmd := &cobra.Command{
		Use:   "login REGISTRY",
		Short: "Check credentials for a registry, and save them",
		Long: `Check user and password at a registry, and only then save them: in the credential
helper that is configured for it, else in the auth file that podman, skopeo and
buildah use, too. The password is asked for on the terminal, or read from stdin
with --password-stdin.`,
		Example: `  sealer login registry.example.com
  sealer login -u ci --password-stdin registry.example.com:5000 < password.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := registryHost(args[0])
			if err != nil {
				return err
			}
			if fromStdin && user == "" {
				return usagef("--password-stdin needs --username")
			}
			user, password, err := a.askCredentials(user, fromStdin)
			if err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			where, err := c.Login(cmd.Context(), host, user, password)
			if errors.Is(err, remote.ErrUnauthorized) {
				return advise(err, "Nothing was saved. Check the user and the password")
			}
			if err != nil {
				return err
			}
			printf(a.Out, "Logged in to %s as %s; saved in %s\n", host, user, where)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&user, "username", "u", "", "the user; asked for when it is missing")
	f.BoolVar(&fromStdin, "password-stdin", false, "read the password from stdin")
	r.add(f)
	return cmd
}

// registryHost checks that s is host[:port].
func registryHost(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, "/@ ") {
		return "", usagef("registry %q: want HOST or HOST:PORT, without a scheme and a path", s)
	}
	return s, nil
}

// askCredentials reads the missing user and password from stdin or from the
// terminal.
func (a *app) askCredentials(user string, fromStdin bool) (string, string, error) {
	if fromStdin {
		b, err := io.ReadAll(io.LimitReader(a.In, maxPassword))
		if err != nil {
			return "", "", fmt.Errorf("read password from stdin: %w", err)
		}
		password := strings.TrimRight(string(b), "\r\n")
		if password == "" {
			return "", "", errors.New("read password from stdin: it is empty")
		}
		return user, password, nil
	}
	f, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", "", usagef("there is no terminal to ask for the password: give it with --password-stdin")
	}
	if user == "" {
		printf(a.Err, "Username: ")
		line, err := bufio.NewReader(f).ReadString('\n')
		if err != nil {
			return "", "", fmt.Errorf("read user name: %w", err)
		}
		user = strings.TrimSpace(line)
	}
	printf(a.Err, "Password: ")
	password, err := term.ReadPassword(int(f.Fd()))
	printLine(a.Err)
	if err != nil {
		return "", "", fmt.Errorf("read password: %w", err)
	}
	return user, string(password), nil
}
