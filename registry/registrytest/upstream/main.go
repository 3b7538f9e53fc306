// Command upstream is a registry on loopback for demos and scripts: see package
// registrytest. It prints host:port on stdout, writes the same to -ready-file
// once it answers, and runs until it is interrupted.
//
//	go run ./registry/registrytest/upstream                 # the sample images
//	go run ./registry/registrytest/upstream -any            # and every other tag
//	go run ./registry/registrytest/upstream -empty          # a place to push to
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/clusterimage/sealer/registry/registrytest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

// run starts the upstream that args describe and stops it when ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:0", "`address` to listen on")
	ready := flags.String("ready-file", "", "`file` to write host:port to, once the upstream answers")
	invent := flags.Bool("any", false, "answer for every repository and tag with a small image of its own")
	empty := flags.Bool("empty", false, "start without images, as a target to push to")
	dir := flags.String("dir", "", "keep the registry in this `directory` instead of in memory")
	secure := flags.Bool("tls", false, "serve https with a self-signed certificate")
	ca := flags.String("ca-file", "", "`file` to write that certificate to")
	user := flags.String("user", "", "demand this `user:password`")
	conf := flags.String("registries-conf", "", "`file` to write a registries.conf to that sends -hosts here")
	hosts := flags.String("hosts", "docker.io,ghcr.io,quay.io,registry.k8s.io", "source `registries` of -registries-conf")
	list := flags.Bool("list", false, "print the names of the sample images and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o := registrytest.Options{Addr: *addr, Any: *invent, TLS: *secure, Dir: *dir}
	if !*empty {
		o.Images = registrytest.Samples()
	}
	if *list {
		for _, img := range o.Images {
			fmt.Fprintln(stdout, img.Name)
		}
		return nil
	}
	if *user != "" {
		name, password, ok := strings.Cut(*user, ":")
		if !ok {
			return errors.New("-user: want user:password")
		}
		o.Auth = registrytest.Auth{Scheme: registrytest.Basic, User: name, Password: password}
	}
	up, err := registrytest.Start(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	// The ready file comes last: a script that has waited for it reads the others.
	for _, f := range []struct{ name, content string }{
		{*ca, string(up.CA())}, {*conf, up.RegistriesConf(strings.Split(*hosts, ",")...)}, {*ready, up.Host() + "\n"},
	} {
		if f.name == "" {
			continue
		}
		if err := write(f.name, f.content); err != nil {
			return err
		}
	}
	fmt.Fprintln(stdout, up.Host())
	<-ctx.Done()
	return nil
}

// write creates file with all its content at once, for a script that waits for
// it.
func write(file, content string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(f.Name()))
		}
	}()
	if _, err = f.WriteString(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
