package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) registryServe() *cobra.Command {
	var o registry.ServerOptions
	var only platformFlag
	var htpasswd, ready, ca string
	cmd := &cobra.Command{
		Use:   "serve IMAGE...",
		Short: "Serve the container images inside ClusterImages as a registry, read-only",
		Long: `Serve the container images inside ClusterImages as a registry, read-only and
straight from the store, until interrupted. Where two ClusterImages have one tag,
that of the later one is served.

An image is found by its name in the private registry, by its public name as a
path (docker.io/library/nginx), and through containerd's mirror protocol: see
sealer registry hosts. /healthz tells whether the store can be read, /metrics
has Prometheus metrics.`,
		Example: `  sealer registry serve my-app:v1 --addr :5000 --self-signed --cert-out ca.crt
  sealer registry serve my-app:v1 base:v1 --tls-cert tls.crt --tls-key tls.key --htpasswd users`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.CertFile == "") != (o.KeyFile == "") || o.SelfSigned && o.CertFile != "" || ca != "" && !o.SelfSigned {
				return usagef("https needs --tls-cert with --tls-key, or --self-signed, which --cert-out is for")
			}
			return a.withStore(func(s *store.Store) error {
				return a.serve(cmd.Context(), s, args, only.Platform, serving{o, htpasswd, ready, ca})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:5000", "`address` to listen on; port 0 is any that is free")
	f.StringVar(&o.CertFile, "tls-cert", "", "certificate (PEM) for https")
	f.StringVar(&o.KeyFile, "tls-key", "", "its key")
	f.BoolVar(&o.SelfSigned, "self-signed", false, "https with a new certificate for the address, this machine's name, localhost and the private registries' names")
	f.StringVar(&ca, "cert-out", "", "write the self-signed certificate to this `file`, for clients to trust")
	f.StringVar(&htpasswd, "htpasswd", "", "let in only the users of this `file` (htpasswd -B)")
	f.StringVar(&ready, "ready-file", "", "write host:port to this `file` once requests are answered")
	f.Var(&only, "platform", "serve the images for this platform only (default: all that the ClusterImages have)")
	return cmd
}

type serving struct {
	server              registry.ServerOptions
	htpasswd, ready, ca string
}

func (a *app) serve(ctx context.Context, s *store.Store, names []string, p *ocispec.Platform, v serving) (err error) {
	content, err := transfer.Contents(ctx, s, names, p)
	if err != nil {
		return notFound(err)
	}
	v.server.Hosts, v.server.Logger = content.Options.PrivateRegistries, a.logger()
	h, err := transfer.NewHandler(ctx, s, content, registry.Options{Htpasswd: v.htpasswd, Logger: v.server.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	server, err := registry.Listen(h.Handler, v.server)
	if err != nil {
		return err
	}
	if err := announce(server, v); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := a.tellGaps(ctx, s, names, p); err != nil {
		return errors.Join(err, server.Close())
	}
	fmt.Fprintf(a.Out, "Serving %d images at %s\n", len(content.Options.References), server.URL())
	return server.Serve(ctx)
}

// announce writes the files that tell other programs about a listening server.
func announce(s *registry.Server, v serving) error {
	for _, f := range []struct {
		name    string
		content []byte
	}{{v.ca, s.Certificate()}, {v.ready, []byte(s.Addr() + "\n")}} {
		if f.name == "" {
			continue
		}
		if err := writeFile(f.name, 0o644, func(w io.Writer) error { _, err := w.Write(f.content); return err }); err != nil {
			return err
		}
	}
	return nil
}
