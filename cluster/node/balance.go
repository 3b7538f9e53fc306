package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Balancer takes connections on a worker and hands each to a master whose API
// server is ready. It reads the masters from a file, host:port a line, and
// again whenever that changes.
type Balancer struct {
	Listen string // 127.0.0.1:6443
	File   string
	Logger *slog.Logger

	mu      sync.Mutex
	masters []string
	ready   map[string]bool
	next    int
}

// balanceEvery is the pause between two looks at the masters and their file.
const balanceEvery = time.Second

// Serve works until ctx ends.
func (b *Balancer) Serve(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.Listen)
	if err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	b.look(ctx)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(balanceEvery):
				b.look(ctx)
			}
		}
	}()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("balance: %w", err)
		}
		go b.hand(ctx, c)
	}
}

// look reads the file and asks every master whether it is ready.
func (b *Balancer) look(ctx context.Context) {
	text, err := os.ReadFile(b.File)
	if err != nil {
		b.Logger.Warn("balance: masters are not known anew", "error", err)
	}
	masters := strings.Fields(string(text))
	b.mu.Lock()
	if len(masters) == 0 {
		masters = b.masters
	}
	b.mu.Unlock()
	ready := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range masters {
		wg.Go(func() {
			ok := apiReady(ctx, m)
			mu.Lock()
			ready[m] = ok
			mu.Unlock()
		})
	}
	wg.Wait()
	b.mu.Lock()
	b.masters, b.ready = masters, ready
	b.mu.Unlock()
}

// apiReady asks an API server whether it is ready. Its certificate is not
// looked at: no secret is sent, and whoever connects through the balancer checks
// it.
func apiReady(ctx context.Context, host string) bool {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// order are the masters to try: the ready ones in turn, then the others.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.masters) == 0 {
		return nil
	}
	b.next++
	at := b.next % len(b.masters)
	turned := append(slices.Clone(b.masters[at:]), b.masters[:at]...)
	slices.SortStableFunc(turned, func(x, y string) int {
		switch {
		case b.ready[x] == b.ready[y]:
			return 0
		case b.ready[x]:
			return -1
		}
		return 1
	})
	return turned
}

func (b *Balancer) hand(ctx context.Context, c net.Conn) {
	defer c.Close()
	for _, m := range b.order() {
		up, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", m)
		if err != nil {
			continue
		}
		join(c, up)
		return
	}
	b.Logger.Warn("balance: no master answers")
}

// join copies both ways until one side ends.
func join(a, b net.Conn) {
	defer b.Close()
	done := make(chan error, 2)
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(pair[0], pair[1])
			if t, ok := pair[0].(*net.TCPConn); ok {
				err = errors.Join(err, t.CloseWrite())
			}
			done <- err
		}()
	}
	<-done
	<-done
}
