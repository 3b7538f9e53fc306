package registry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// users are the accounts of an htpasswd file. distribution's own check is not
// used: distribution creates a missing file with a password of its own, and runs
// bcrypt, a tenth of a second, on every request of a client that pulls hundreds
// of blobs.
//
// A check costs a processor that tenth of a second, so that guessing must not
// take all of them: checkers run at a time, and each client's checks run one after
// the other. A password that was accepted once is not checked again.
type users struct {
	hashes   map[string][]byte
	some     []byte        // a hash to compare with for a user that does not exist
	checkers chan struct{} // one for each check that runs

	mu      sync.Mutex
	known   map[string][sha256.Size]byte // user -> hash of the password that bcrypt accepted
	clients map[string]*client           // by address, those with a check that runs or waits
}

// A client is an address whose passwords are being checked.
type client struct {
	turn    chan struct{} // holds an element while a check runs
	waiting int           // checks that run or wait
}

// maxWaiting is the number of requests of one client whose passwords wait for
// their check. A runtime that pulls has a dozen.
const maxWaiting = 64

// errBusy refuses a request of a client with maxWaiting others.
var errBusy = errors.New("too many passwords to check")

// optionalUsers is readUsers; no file means nil, which lets everybody in.
func optionalUsers(file string) (*users, error) {
	if file == "" {
		return nil, nil
	}
	return readUsers(file)
}

// readUsers reads "user:hash" lines, with hashes as "htpasswd -B" makes them.
// Blank lines and # comments are passed over.
func readUsers(file string) (*users, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read htpasswd: %w", err)
	}
	u := &users{
		hashes: map[string][]byte{}, known: map[string][sha256.Size]byte{}, clients: map[string]*client{},
		checkers: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), // the others serve
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s:%d: want user:hash", file, n)
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("%s:%d: user %s: want a bcrypt hash, as htpasswd -B makes it: %w", file, n, name, err)
		}
		u.hashes[name], u.some = []byte(hash), []byte(hash)
	}
	if len(u.hashes) == 0 {
		return nil, fmt.Errorf("%s: no users", file)
	}
	return u, nil
}

// allow reports whether r has the name and the password of a user. The error is
// errBusy, or that of r's context.
func (u *users) allow(r *http.Request) (bool, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return false, nil
	}
	sum := sha256.Sum256([]byte(password))
	if u.accepted(name, sum) {
		return true, nil
	}
	release, err := u.take(r.Context(), r.RemoteAddr)
	if err != nil {
		return false, err
	}
	defer release()
	if u.accepted(name, sum) { // by a check that this one waited for
		return true, nil
	}
	hash, exists := u.hashes[name]
	if !exists {
		hash = u.some // take as long as for a user that exists
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !exists {
		return false, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known[name] = sum
	return true, nil
}

func (u *users) accepted(name string, sum [sha256.Size]byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known, ok := u.known[name]
	return ok && subtle.ConstantTimeCompare(known[:], sum[:]) == 1
}

// take waits until the client at addr may have a password checked, and returns
// the function that ends the check.
func (u *users) take(ctx context.Context, addr string) (release func(), err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	u.mu.Lock()
	c := u.clients[host]
	if c == nil {
		c = &client{turn: make(chan struct{}, 1)}
		u.clients[host] = c
	}
	busy := c.waiting >= maxWaiting
	if !busy {
		c.waiting++
	}
	u.mu.Unlock()
	if busy {
		return nil, errBusy
	}
	leave := func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if c.waiting--; c.waiting == 0 {
			delete(u.clients, host)
		}
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	select {
	case u.checkers <- struct{}{}:
	case <-ctx.Done():
		<-c.turn
		leave()
		return nil, ctx.Err()
	}
	return func() { <-u.checkers; <-c.turn; leave() }, nil
}
