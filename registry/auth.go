package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// users are the accounts of an htpasswd file. distribution's own check is not
// used: distribution creates a missing file with a password of its own, and runs
// bcrypt, a tenth of a second, on every request of a client that pulls hundreds
// of blobs.
type users struct {
	hashes map[string][]byte
	some   []byte // a hash to compare with for a user that does not exist

	mu    sync.Mutex
	known map[string][sha256.Size]byte // user -> hash of the password that bcrypt accepted
}

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
	u := &users{hashes: map[string][]byte{}, known: map[string][sha256.Size]byte{}}
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

func (u *users) allow(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	sum := sha256.Sum256([]byte(password))
	u.mu.Lock()
	known, ok := u.known[name]
	u.mu.Unlock()
	if ok && subtle.ConstantTimeCompare(known[:], sum[:]) == 1 {
		return true
	}
	hash, exists := u.hashes[name]
	if !exists {
		hash = u.some // take as long as for a user that exists
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !exists {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known[name] = sum
	return true
}
