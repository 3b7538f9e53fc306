package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// A session is the writing of one Store. Its record, locked for as long as the
// process lives, tells a later process which content a power failure, or a flush
// that failed, may have lost: everything that was published after the record was
// made and never flushed. The fields but shared are guarded by Store.mu.
type session struct {
	record  *os.File // ROOT/tmp/session-*: see record
	flushed bool     // the record is on disk. Must hold before the first rename
	lost    bool     // a flush of the record failed: see settle
	shared  *os.File // a shared lock on locks/store, which keeps prune away
	dirty   bool     // something was published since the last good flush began
	failed  bool     // a flush failed; see mend
}

// sessionHead is the first line of a session record.
type sessionHead struct {
	Boot string `json:"boot"`
	holder
}

// The lines of a session record after its head: the ID of each layer before it is
// published, and the flushes.
const (
	lineFlush   = "flush" // begins at the time that follows
	lineFlushed = "flushed"
	lineFailed  = "failed"
)

// A record is a session record as it was read.
type record struct {
	sessionHead
	layers   []digest.Digest // published, maybe, and not flushed
	since    time.Time       // no blob from before is unflushed
	flushing bool            // a flush began and did not end
	failed   bool            // a flush failed
}

const sessionPrefix = "session-"

func isSession(name string) bool { return strings.HasPrefix(name, sessionPrefix) }

// begin returns the session, making the store's directories and the record
// when this is the first write.
func (s *Store) begin(ctx context.Context) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, nil
	}
	n, err := s.newSession(ctx)
	if err != nil {
		return nil, fmt.Errorf("write to store %s: %w", s.root, err)
	}
	s.session = n
	return n, nil
}

// published notes that something was renamed to its place: Close must leave the
// record then.
func (s *Store) published() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		s.session.dirty = true
	}
}

func (s *Store) newSession(ctx context.Context) (_ *session, err error) {
	if err := s.makeDirs(); err != nil {
		return nil, err
	}
	n := &session{}
	defer func() {
		if err != nil {
			if n.record != nil {
				_ = os.Remove(n.record.Name())
			}
			_ = n.close()
		}
	}()
	if n.shared, err = s.lock(ctx, "store", false); err != nil {
		return nil, err
	}
	if n.record, err = s.tempFile(ctx, strings.TrimSuffix(sessionPrefix, "-")); err != nil {
		return nil, err
	}
	head, err := json.Marshal(sessionHead{Boot: bootID(), holder: s.self()})
	if err != nil {
		return nil, err
	}
	_, err = n.record.Write(append(head, '\n'))
	return n, err
}

// publish renames a temporary to its place once the record is on disk, which a
// session that writes nothing, such as a warm build, need not wait for.
func (s *Store) publish(ctx context.Context, from, to string) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	defer s.published()
	return os.Rename(from, to)
}

// settle flushes the record. After a flush that failed the next one may succeed
// without writing a byte: the record is then written to a new file.
func (s *Store) settle(ctx context.Context) error {
	n, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.flushed {
		return nil
	}
	if n.lost {
		err = s.rewriteRecord(ctx, n)
	}
	if err == nil {
		err = errors.Join(n.record.Sync(), s.syncDir(s.path("tmp")))
	}
	if n.flushed, n.lost = err == nil, err != nil; err != nil {
		return fmt.Errorf("write session record: %w", err)
	}
	return nil
}

// rewriteRecord gives n a new file with the content of its record, and removes
// the old one.
func (s *Store) rewriteRecord(ctx context.Context, n *session) error {
	content, err := os.ReadFile(n.record.Name())
	if err != nil {
		return err
	}
	f, err := s.tempFile(ctx, strings.TrimSuffix(sessionPrefix, "-"))
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, discard(f))
	}
	old := n.record
	n.record = f
	return discard(old)
}

// makeDirs makes the directories of a store. Only its owner may look into
// layers: they may hold programs with setuid bits.
func (s *Store) makeDirs() error {
	for _, d := range []struct {
		name string
		perm fs.FileMode
	}{
		{"image/blobs/sha256", 0o700}, // mirrored images and configuration may be secret
		{"data/overlay2", 0o700},
		{"tmp", 0o700},
		{"locks", 0o700},
		{"cache", 0o700},
	} {
		if _, err := os.Stat(s.path(d.name)); err == nil {
			continue
		}
		if err := os.MkdirAll(s.path(d.name), d.perm); err != nil {
			return err
		}
		if d.name == "tmp" { // where every layer is made
			spread(s.path(d.name))
		}
	}
	return nil
}

func (n *session) close() error {
	var errs []error
	for _, f := range []*os.File{n.record, n.shared} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Hold keeps prune, in any process, from removing anything until Close; every
// write does the same. It is for those who read for long.
func (s *Store) Hold(ctx context.Context) error {
	_, err := s.begin(ctx)
	return err
}

// note writes into the record that layer id is about to be published.
func (s *Store) note(ctx context.Context, id digest.Digest) error {
	n, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.flushed = false
	if _, err := n.record.WriteString(id.String() + "\n"); err != nil {
		return fmt.Errorf("write session record: %w", err)
	}
	return nil
}

// flush makes durable all that was published before the call, by this process
// and by dead ones. When it fails, mend must be called before the next.
func (s *Store) flush(ctx context.Context) error {
	n, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	clean := !n.dirty
	s.mu.Unlock()
	if clean && len(s.records()) == 1 {
		return nil // no session published anything that is not flushed
	}
	if err := s.flushBegins(n); err != nil {
		return err
	}
	if err := s.flushDead(n.shared); err != nil {
		return err
	}
	return s.flushEnded(n)
}

// flushBegins notes that the next flush covers everything that n published
// before.
func (s *Store) flushBegins(n *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.dirty = false // before the flush, which may miss blobs published from here on
	if _, err := fmt.Fprintf(n.record, "%s %s\n", lineFlush, time.Now().Format(time.RFC3339Nano)); err != nil {
		n.dirty = true
		return fmt.Errorf("write session record: %w", err)
	}
	return nil
}

// flushEnded notes that the flush that began last succeeded.
func (s *Store) flushEnded(n *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.failed = false
	if _, err := n.record.WriteString(lineFlushed + "\n"); err != nil {
		return fmt.Errorf("write session record: %w", err)
	}
	return nil
}

// flushDead flushes the file system of f and removes the records of the sessions
// that were dead before. A record that tells of a failed flush stays for mend.
func (s *Store) flushDead(f *os.File) error {
	dead := s.deadSessions()
	defer closeAll(dead)
	if err := s.syncFS(f); err != nil {
		s.failed(dead)
		return err
	}
	for _, f := range dead {
		if r, err := readRecord(f); err == nil && (r.failed || r.flushing) {
			continue
		}
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the writing and frees the locks. Published content stays, for a later
// run to find; only Commit makes it durable.
func (s *Store) Close() error {
	s.mu.Lock()
	n := s.session
	s.session = nil
	s.mu.Unlock()
	if n == nil {
		return nil
	}
	// A record that still tells something is left to be found by the next
	// flush, or by the first who opens the store after a power failure.
	var err error
	if !n.dirty {
		err = os.Remove(n.record.Name())
	}
	if err := errors.Join(err, n.close()); err != nil {
		return fmt.Errorf("close store %s: %w", s.root, err)
	}
	return nil
}

// records returns the paths of the session records.
func (s *Store) records() []string {
	entries, _ := os.ReadDir(s.path("tmp"))
	var out []string
	for _, e := range entries {
		if isSession(e.Name()) {
			out = append(out, s.path("tmp", e.Name()))
		}
	}
	return out
}

// deadSessions returns the locked records of dead processes. Unreadable records
// count as dead.
func (s *Store) deadSessions() []*os.File {
	var dead []*os.File
	for _, name := range s.records() {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if ok, err := tryFlock(f, true); err == nil && ok && same(f, name) {
			dead = append(dead, f)
			continue
		}
		_ = f.Close()
	}
	return dead
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
