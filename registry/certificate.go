package registry

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// A keyPair is a certificate and its key in two files. Both are read again when
// one of them changes.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]state // of the files, when they were read last
}

// A state identifies one content of a file, by size and modification time.
type state struct {
	size     int64
	modified time.Time
}

func openKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	k := &keyPair{certFile: certFile, keyFile: keyFile, log: log}
	k.read = k.states()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate: %w", err)
	}
	k.current = &cert
	return k, nil
}

// get returns the certificate in the files, for tls.Config. While the files
// cannot be read or do not match, as when only one of them has been replaced, get
// returns the certificate that it read last.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.states()
	if now == k.read {
		return k.current, nil
	}
	k.read = now
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		k.log.Warn("the TLS certificate has changed and cannot be used, the old one stays", "error", err)
		return k.current, nil
	}
	k.log.Info("the TLS certificate has changed", "file", k.certFile)
	k.current = &cert
	return k.current, nil
}

func (k *keyPair) states() (out [2]state) {
	for i, name := range []string{k.certFile, k.keyFile} {
		if fi, err := os.Stat(name); err == nil {
			out[i] = state{fi.Size(), fi.ModTime()}
		}
	}
	return out
}
