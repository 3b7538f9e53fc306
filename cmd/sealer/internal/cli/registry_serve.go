package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// caFile is the file in the store's directory with the CA of --self-signed.
const caFile = "registry-ca.pem"

// reloadInterval is how often registry serve looks whether the store's list of
// images is another file.
const reloadInterval = 2 * time.Second

func (a *app) registryServe() *cobra.Command {
	v := serving{}
	var only platformFlag
	cmd := &cobra.Command{
		Use:   "serve IMAGE... | --all",
		Short: "Serve the container images inside ClusterImages as a registry, read-only",
		Long: `Serve the container images inside ClusterImages as a registry, read-only and
straight from the store, until interrupted. Where two ClusterImages have one tag,
that of the later one is served; with --all, that of the newer one.

An image is found by its name in the private registry, by its public name as a
path (docker.io/library/nginx), and through containerd's mirror protocol: see
sealer registry hosts. /healthz tells whether the store can be read, /metrics
has Prometheus metrics.

When a name comes to mean another image in the store (build, pull, load, tag), the
new one is served from the next request on. SIGHUP looks at once, and reads the
users again. Pulls that have begun get the rest of what they began with.

--self-signed makes a CA in the store's directory once. Clients that trust the
file of --cert-out go on trusting the registry after restarts.`,
		Example: `  sealer registry serve my-app:v1 --addr :5000 --self-signed --cert-out ca.crt
  sealer registry serve --all --addr :5000 --self-signed --cert-host registry.corp --cert-out ca.crt
  sealer registry serve my-app:v1 base:v1 --tls-cert tls.crt --tls-key tls.key --htpasswd users`,
		Args: func(_ *cobra.Command, args []string) error {
			if v.images.All == (len(args) > 0) {
				return usagef("give the images to serve, or --all")
			}
			return nil
		},
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(); err != nil {
				return err
			}
			v.images.Names, v.images.Platform = args, only.Platform
			return a.withStore(func(s *store.Store) error { return a.serve(cmd.Context(), s, v) })
		},
	}
	f, o := cmd.Flags(), &v.server
	f.BoolVar(&v.images.All, "all", false, "serve every ClusterImage of the store")
	f.StringVar(&o.Addr, "addr", "127.0.0.1:5000", "`address` to listen on; port 0 is any that is free")
	f.StringVar(&o.CertFile, "tls-cert", "", "certificate (PEM) for https")
	f.StringVar(&o.KeyFile, "tls-key", "", "its key")
	f.BoolVar(&o.SelfSigned, "self-signed", false, "https with a certificate for this machine's names and addresses, localhost and the private registries' names, signed by a CA that is kept in the store's directory")
	f.StringArrayVar(&o.Hosts, "cert-host", nil, "a further `name` or address for that certificate (repeatable)")
	f.StringVar(&v.ca, "cert-out", "", "write the certificate of that CA to this `file`, for clients to trust")
	f.StringVar(&v.htpasswd, "htpasswd", "", "let in only the users of this `file` (htpasswd -B)")
	f.StringVar(&v.ready, "ready-file", "", "write host:port to this `file` once requests are answered")
	f.Var(&only, "platform", "serve the images for this platform only (default: all that the ClusterImages have)")
	return cmd
}

type serving struct {
	images              transfer.Selection
	server              registry.ServerOptions
	htpasswd, ready, ca string
}

func (v serving) check() error {
	o := v.server
	if (o.CertFile == "") != (o.KeyFile == "") || o.SelfSigned && o.CertFile != "" || !o.SelfSigned && (v.ca != "" || o.Hosts != nil) {
		return usagef("https needs --tls-cert with --tls-key, or --self-signed, which --cert-out and --cert-host are for")
	}
	for _, h := range o.Hosts {
		if err := registry.CheckCertHost(h); err != nil {
			return usagef("--cert-host: %w", err)
		}
	}
	return nil
}

func (a *app) serve(ctx context.Context, s *store.Store, v serving) (err error) {
	log := a.logger()
	service, err := transfer.NewService(ctx, s, v.images, registry.Options{Htpasswd: v.htpasswd, Logger: log})
	if err != nil {
		return notFound(err)
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	v.server.Logger = log
	v.server.Hosts = append(v.server.Hosts, service.PrivateRegistries()...)
	v.server.CAFile = filepath.Join(s.Root(), caFile)
	server, err := registry.Listen(service, v.server)
	if v.server.SelfSigned && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) {
		printf(a.Err, "Warning: %v; clients must trust another CA after each start\n", err)
		v.server.CAFile = ""
		server, err = registry.Listen(service, v.server)
	}
	if err != nil {
		return err
	}
	hangups, reset := hangups()
	defer reset()
	if err := announce(server, v); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := a.tellService(ctx, s, service, v); err != nil {
		return errors.Join(err, server.Close())
	}
	printf(a.Out, "Serving %s at %s\n", counted(service.Count(), "image", "images"), server.URL())
	ctx, end := context.WithCancel(ctx)
	follower := make(chan struct{})
	go func() {
		defer close(follower)
		a.follow(ctx, s, service, v, hangups, end)
	}()
	defer func() { end(); <-follower }()
	return server.Serve(ctx)
}

// hangups returns SIGHUPs, which no longer end the program, until reset.
func hangups() (c chan os.Signal, reset func()) {
	c = make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Reset(syscall.SIGHUP)
	}
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// follow takes up the images of the store that change, until ctx ends. A SIGHUP
// that comes because the terminal is gone calls end.
func (a *app) follow(ctx context.Context, s *store.Store, service *transfer.Service, v serving, hangups <-chan os.Signal, end func()) {
	terminal := hasTerminal()
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if terminal && !hasTerminal() {
				end()
				return
			}
			asked = true
		case <-tick.C:
			if !service.Changed() {
				continue
			}
		}
		changed, err := service.Reload(ctx, asked)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			printf(a.Err, "Warning: %v; what was served before is served on\n", err)
		case changed || asked:
			if err := a.tellService(ctx, s, service, v); err != nil {
				printf(a.Err, "Warning: %v\n", err)
			}
			printf(a.Out, "Serving %s now\n", counted(service.Count(), "image", "images"))
		}
	}
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// tellService says on stderr which images are not served or have gaps.
func (a *app) tellService(ctx context.Context, s *store.Store, service *transfer.Service, v serving) error {
	for _, err := range service.Skipped() {
		printf(a.Err, "Warning: not served: %v\n", err)
	}
	return a.tellGaps(ctx, s, service.Names(), v.images.Platform)
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
		if err := archive.WriteFile(f.name, 0o644, func(w io.Writer) error { _, err := w.Write(f.content); return err }); err != nil {
			return err
		}
	}
	return nil
}
