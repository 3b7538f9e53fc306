package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func newUsers(t *testing.T) *users {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte("ann:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := readUsers(file)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func asking(ctx context.Context, addr, user, password string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "GET", "/v2/", nil)
	r.RemoteAddr = addr
	r.SetBasicAuth(user, password)
	return r
}

// TestGuessesAreBounded: guesses take one checker for each client, and no more
// than there are; a user who was let in before does not wait for them.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	u.checkers = make(chan struct{}, 1)
	if ok, err := u.allow(asking(t.Context(), "10.0.0.1:1", "ann", "secret")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	u.checkers <- struct{}{} // a check that does not end
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	results := make([]error, 2*maxWaiting)
	var refused atomic.Int32
	for i := range results {
		wg.Go(func() {
			_, results[i] = u.allow(asking(ctx, fmt.Sprintf("10.0.0.2:%d", i+1), "ann", fmt.Sprint("guess", i)))
			if errors.Is(results[i], errBusy) {
				refused.Add(1)
			}
		})
	}
	if ok, err := u.allow(asking(t.Context(), "10.0.0.2:999", "ann", "secret")); !ok || err != nil {
		t.Errorf("the good answer waits for guesses: %v %v", ok, err)
	}
	for int(refused.Load()) < len(results)-maxWaiting { // then all that may wait do
		time.Sleep(time.Millisecond)
	}
	if _, err := u.allow(asking(t.Context(), "10.0.0.2:7", "ann", "more")); !errors.Is(err, errBusy) {
		t.Errorf("error %v, want errBusy", err)
	}
	cancel()
	wg.Wait()
	busy := 0
	for _, err := range results {
		switch {
		case errors.Is(err, errBusy):
			busy++
		case !errors.Is(err, context.Canceled):
			t.Errorf("error %v", err)
		}
	}
	if busy != len(results)-maxWaiting {
		t.Errorf("%d were refused, want %d", busy, len(results)-maxWaiting)
	}
	<-u.checkers
	if len(u.clients) != 0 {
		t.Errorf("clients are kept: %v", u.clients)
	}
	for password, want := range map[string]bool{"secret": true, "wrong": false} {
		if ok, err := u.allow(asking(t.Context(), "10.0.0.3:1", "ann", password)); ok != want || err != nil {
			t.Errorf("%s: %v %v", password, ok, err)
		}
	}
}
