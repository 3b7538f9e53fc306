package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked is wrapped by the error of Acquire when somebody else works.
var ErrLocked = errors.New("another run works on this machine")

// A Holder names the run that works on a machine.
type Holder struct {
	Name  string    `json:"name"` // user@machine of the engine
	PID   int       `json:"pid"`  // of the engine
	Since time.Time `json:"since"`
	Verb  string    `json:"verb"`
}

// A Lock is held until Release, or until its process ends: a dead holder keeps
// nobody out.
type Lock struct{ file *os.File }

// errGone says that the lock's file was removed while it was taken.
var errGone = errors.New("the lock was removed")

// Acquire takes the lock in dir, which it makes, for h. The error names the
// holder when somebody has it.
func Acquire(dir string, h Holder) (l *Lock, err error) {
	for range 100 { // a holder that removes the lock with its directory does it once
		if l, err = acquire(dir, h); !errors.Is(err, errGone) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return l, err
}

func acquire(dir string, h Holder) (_ *Lock, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if ok, err := tryLock(f); err == nil && !ok {
		var other Holder
		b, _ := io.ReadAll(f)
		if json.Unmarshal(b, &other) != nil {
			return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
		}
		return nil, fmt.Errorf("lock %s: %s of %s, process %d, since %s: %w", dir, other.Verb, other.Name, other.PID, other.Since.Format(time.RFC3339), ErrLocked)
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if gone(f) {
		return nil, errGone
	}
	b, err := json.Marshal(h)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return &Lock{f}, nil
}

// gone reports whether the name of f leads to another file, or to none: whoever
// removes the lock's file holds the lock, and a lock on that file keeps nobody out.
func gone(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there)
}

// Release frees the lock.
func (l *Lock) Release() error { return l.file.Close() }
