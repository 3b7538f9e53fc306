package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/store"
)

func (a *app) registryHosts() *cobra.Command {
	var only platformFlag
	var server, dir string
	d := redirect.Redirect{Engine: redirect.Containerd}
	cmd := &cobra.Command{
		Use:   "hosts IMAGE --server URL",
		Short: "Print the hosts.toml files by which containerd pulls from a registry what is inside",
		Long: `Print containerd's hosts.toml files for exactly the source registries whose
images are inside a ClusterImage, and for the name of its private registry, by
which kubeadm's configuration may ask. With them in /etc/containerd/certs.d of each
node, containerd asks the registry at URL first; it needs no webhook and no change
of any manifest. URL is a sealer registry serve, or a registry that has the images
under the names of the private registry.`,
		Example: `  sealer registry hosts my-app:v1 --server https://10.0.0.5:5000 --ca /etc/containerd/ca.crt
  sealer registry hosts my-app:v1 --server http://10.0.0.5:5000 --dir /etc/containerd`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if d.PrivateRegistry, d.PlainHTTP, err = parseServer(server); err != nil {
				return err
			}
			err = a.withStore(func(s *store.Store) error { return hold(cmd.Context(), s, args[0], only.Platform, &d) })
			if err != nil {
				return notFound(err)
			}
			files, err := d.Policy()
			if err != nil {
				return fmt.Errorf("hosts for %s: %w", args[0], err)
			}
			if dir != "" {
				return a.writeFiles(dir, files, true)
			}
			for _, file := range files {
				printf(a.Out, "# %s\n", file.Path)
				if _, err := a.Out.Write(append(file.Content, '\n')); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "`URL` of the registry, http or https; a name alone means https")
	f.StringVar(&d.CAFile, "ca", "", "`file` on each node with the certificate to trust")
	f.StringVar(&dir, "dir", "", "write certs.d into this `directory` instead of printing it")
	f.Var(&only, "platform", "the images for this platform only (default: all that the ClusterImage has)")
	_ = cmd.MarkFlagRequired("server") // fails only for an unknown flag
	return cmd
}

// parseServer reads the URL of a registry: its host[:port], and whether it speaks
// plain http.
func parseServer(s string) (host string, plain bool, err error) {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", false, usagef("--server %q: want http://HOST[:PORT] or https://HOST[:PORT]", s)
	}
	return u.Host, u.Scheme == "http", nil
}
