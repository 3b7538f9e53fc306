package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Acquire takes the lock in dir, which it makes, for h. The error names the
// holder when somebody has it.
func Acquire(dir string, h Holder) (_ *Lock, err error) {
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

// Release frees the lock.
func (l *Lock) Release() error { return l.file.Close() }
