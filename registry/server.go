package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServerOptions of Listen.
type ServerOptions struct {
	// Addr is the host:port to listen on. "" means 127.0.0.1:5000; port 0 means
	// any free port.
	Addr string
	// CertFile and KeyFile are PEM files that make the server speak https; give
	// both or neither. When they are replaced, new connections get the new
	// certificate.
	CertFile, KeyFile string
	// SelfSigned makes the server speak https with a certificate of its own CA,
	// for localhost, this machine's names, the address (each address of the
	// machine, where it listens on all of them), every address of the machine at
	// which a client reaches it, and Hosts, which are names or addresses. It is
	// renewed in time.
	SelfSigned bool
	Hosts      []string
	// CAFile is the PEM file, with mode 0600, of that CA's certificate and key. It
	// is made when it is missing or about to expire. "" is a CA that lives as long
	// as the Server.
	CAFile string
	// Grace is how long Serve waits for running requests at the end; 0 is 10
	// seconds.
	Grace time.Duration
	// Logger gets errors of connections; nil discards.
	Logger *slog.Logger
}

// A Server has a listening socket. Serve answers the requests.
type Server struct {
	listener net.Listener
	server   *http.Server
	grace    time.Duration
	secure   bool // not taken from server.TLSConfig, which Serve fills in for HTTP/2
	pem      []byte
}

const (
	defaultAddr  = "127.0.0.1:5000"
	defaultGrace = 10 * time.Second
)

// Listen opens the address for h. The caller calls Serve or Close.
func Listen(h http.Handler, o ServerOptions) (*Server, error) {
	if o.Logger == nil {
		o.Logger = discard()
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("listen: a TLS certificate needs its key, and a key its certificate")
	}
	if o.SelfSigned && o.CertFile != "" {
		return nil, errors.New("listen: a TLS certificate is given and a self-signed one asked for; choose one")
	}
	l, err := net.Listen("tcp", cmp.Or(o.Addr, defaultAddr))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &Server{
		listener: l,
		grace:    cmp.Or(o.Grace, defaultGrace),
		server: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		},
	}
	if err := s.useTLS(o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

func (s *Server) useTLS(o ServerOptions) error {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case o.CertFile != "":
		files, err := openKeyPair(o.CertFile, o.KeyFile, o.Logger)
		if err != nil {
			return err
		}
		c.GetCertificate = files.get
	case o.SelfSigned:
		i, err := newIssuer(s.listener.Addr(), o)
		if err != nil {
			return fmt.Errorf("self-signed certificate: %w", err)
		}
		if s.pem, _, err = i.ca.PEM(); err != nil {
			return fmt.Errorf("self-signed certificate: %w", err)
		}
		c.GetCertificate = i.get
	default:
		return nil
	}
	s.secure = true
	s.server.TLSConfig = c
	return nil
}

// Addr returns the host:port that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the server's address with its scheme.
func (s *Server) URL() string {
	if s.secure {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Certificate returns the certificate of the server's own CA as PEM, for clients
// to trust; nil without ServerOptions.SelfSigned.
func (s *Server) Certificate() []byte { return s.pem }

// Serve answers requests until ctx ends, waits for running requests as long as
// ServerOptions.Grace says, and closes the server. It returns nil when ctx ended
// it, even if requests were cut off.
func (s *Server) Serve(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		if s.secure {
			ended <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		ended <- s.server.Serve(s.listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	err := s.server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	<-ended
	if err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}

// Close stops a server on which Serve was not called.
func (s *Server) Close() error { return s.listener.Close() }
