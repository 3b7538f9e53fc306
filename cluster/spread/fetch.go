package spread

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A Peer is a machine that serves blobs.
type Peer struct {
	Address string `json:"address"` // without a port
	Offer
}

// Bounds of a transfer.
const (
	dialWithin  = 5 * time.Second
	stallWithin = 30 * time.Second // between two reads that bring something
)

// Fetch opens a blob of the peer. The caller closes it and checks the bytes.
func (p Peer) Fetch(ctx context.Context, digest string, size int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext, TLSHandshakeTimeout: dialWithin, ResponseHeaderTimeout: stallWithin,
		DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyConnection: p.verify},
	}
	url := "https://" + net.JoinHostPort(p.Address, strconv.Itoa(p.Port)) + prefix + digest
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel(err)
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("fetch %s from %s: %w", digest, p.Address, err)
	}
	if resp.StatusCode != http.StatusOK || resp.ContentLength != size {
		err := fmt.Errorf("fetch %s from %s: %s with %d bytes, want %d", digest, p.Address, resp.Status, resp.ContentLength, size)
		cancel(err)
		return nil, errors.Join(err, resp.Body.Close())
	}
	b := &body{ReadCloser: resp.Body, cancel: cancel}
	b.stall = time.AfterFunc(stallWithin, func() { cancel(fmt.Errorf("fetch %s from %s: no byte within %v", digest, p.Address, stallWithin)) })
	return b, nil
}

// verify takes the certificate of the Offer and no other.
func (p Peer) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) != 1 {
		return errOther
	}
	sum := sha256.Sum256(s.PeerCertificates[0].Raw)
	if hex.EncodeToString(sum[:]) != p.Certificate {
		return errOther
	}
	return nil
}

// body is a response that a silent peer does not keep open.
type body struct {
	io.ReadCloser
	stall  *time.Timer
	cancel context.CancelCauseFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.stall.Reset(stallWithin)
	}
	return n, err
}

func (b *body) Close() error {
	b.stall.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
