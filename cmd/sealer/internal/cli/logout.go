package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// authFileAdvice adds the way out where there is no directory for credentials.
func authFileAdvice(err error) error {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if _, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) {
			return advise(err, "Name the file with the credentials: --authfile FILE (docker has it in ~/.docker/config.json), or unset XDG_RUNTIME_DIR")
		}
	}
	return err
}

func (a *app) logout() *cobra.Command {
	var r registryFlags
	cmd := &cobra.Command{
		Use:     "logout REGISTRY",
		Short:   "Remove the credentials for a registry",
		Example: `  sealer logout registry.example`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			host, err := registryHost(args[0])
			if err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			if err := c.Logout(host); err != nil {
				return authFileAdvice(err)
			}
			printf(a.Out, "Removed the credentials for %s\n", host)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.authFile, "authfile", "", "credentials (default: REGISTRY_AUTH_FILE, else where podman and docker keep them)")
	return cmd
}
