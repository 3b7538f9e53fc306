package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrDamaged is wrapped by an error about a journal that a crash alone cannot
// have made: a line in its middle is no record.
var ErrDamaged = errors.New("the journal is damaged")

// Options of Open.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Mirror is called with each record once it is on disk; nil for nobody.
	Mirror func(Record)
}

// A Journal is open for writing. It is safe for concurrent use.
type Journal struct {
	dir string
	o   Options

	mu      sync.Mutex
	file    *os.File
	whole   int64 // bytes of the records
	records Records
}

// Open opens the journal in dir, which it makes, and reads all records. Bytes
// after the last whole line are cut off. The caller closes the journal, and
// holds the lock of the directory (see Lock) for as long as it is open.
func Open(dir string, o Options) (_ *Journal, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Join(dir, "saved"), 0o700); err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	records, whole, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	if err := errors.Join(f.Truncate(whole), f.Sync(), syncDir(dir)); err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return &Journal{dir: dir, o: o, file: f, whole: whole, records: records}, nil
}

// Read returns the records of the journal in dir without opening it for
// writing; none when there is no journal.
func Read(dir string) (Records, error) {
	f, err := os.Open(filepath.Join(dir, "journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	records, _, err := read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	return records, nil
}

// Closed is a journal of records that were read: nothing can be appended.
func Closed(dir string, records Records) *Journal { return &Journal{dir: dir, records: records} }

// read returns the records and the length of the whole lines that hold them.
func read(r io.Reader) (Records, int64, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, err
	}
	var out Records
	var whole int64
	for {
		line, rest, ok := bytes.Cut(b[whole:], []byte("\n"))
		if !ok {
			return out, whole, nil
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil || rec.Seq != len(out)+1 {
			if len(bytes.TrimRight(rest, "\x00")) == 0 { // a torn last line may hold anything
				return out, whole, nil
			}
			return nil, 0, fmt.Errorf("line %d: %w", len(out)+1, ErrDamaged)
		}
		out = append(out, rec)
		whole += int64(len(line)) + 1
	}
}

// Append writes one record, flushed to the disk, and sets its Seq and Time.
func (j *Journal) Append(r Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return fmt.Errorf("journal %s: %w", j.dir, fs.ErrClosed)
	}
	r.Seq, r.Time = len(j.records)+1, j.o.Now().UTC()
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.dir, err)
	}
	b = append(b, '\n')
	// An append that failed, as on a full disk, may have left a part of its line.
	// A record behind such a part would make the journal unreadable.
	if err = j.file.Truncate(j.whole); err == nil {
		_, err = j.file.WriteAt(b, j.whole)
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.dir, err)
	}
	j.whole += int64(len(b))
	j.records = append(j.records, r)
	if j.o.Mirror != nil {
		j.o.Mirror(r)
	}
	return nil
}

// Records returns a copy of the records.
func (j *Journal) Records() Records {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append(Records(nil), j.records...)
}

// Dir is the journal's directory.
func (j *Journal) Dir() string { return j.dir }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
