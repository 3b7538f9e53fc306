package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
)

// A Guest says how this program came to the machine.
type Guest struct {
	// Dir is the directory into which the engine copied it; "" when it was here.
	Dir string
	// Made is the topmost directory that the copying made; "" when all were there.
	Made string
}

// hold keeps the program of g on the machine until the file is closed: a session
// that ends beside this one removes it only when nobody holds it. Nil when nothing
// is to be held.
func (s *Server) hold(g Guest) *os.File {
	if g.Dir == "" || filepath.Dir(s.o.Program) != filepath.Clean(g.Dir) {
		return nil
	}
	f, err := os.Open(s.o.Program)
	if err != nil {
		return nil
	}
	_ = flock(f, false) // without it the next session copies the program again
	return f
}

// Guard holds the program of g on the machine. The function that it returns ends
// the session: it closes the Server, and where no cluster has changed the machine,
// it removes all that the session has left: the program, the lock, and the
// directories that were made for them. A machine that was only looked at, or whose
// preflight failed, is as it was then.
func (s *Server) Guard(g Guest) (leave func() error) {
	program := s.hold(g)
	return func() error {
		err := s.Close()
		if s.changed() {
			return errors.Join(err, closeFile(program))
		}
		err = errors.Join(err, s.removeTraces())
		if program != nil && flock(program, true) == nil {
			err = errors.Join(err, ignoreAbsent(os.Remove(s.o.Program)))
			removeEmpty(g.Dir, g.Made)
		}
		return errors.Join(err, closeFile(program))
	}
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// changed reports whether a cluster has changed the machine: it has a journal with
// records. One that cannot be read may.
func (s *Server) changed() bool {
	data := s.dataDir("")
	entries, err := os.ReadDir(data)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(data, e.Name(), "journal"))
		if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// removeTraces removes the empty journals of runs that ended before their first
// change, and the lock, unless another session has it.
func (s *Server) removeTraces() error {
	base := filepath.Join(s.o.Root, DefaultBase)
	dir := filepath.Join(base, "lock.d")
	if _, err := os.Stat(dir); err != nil {
		return ignoreAbsent(err) // nobody has opened a journal
	}
	l, err := journal.Acquire(dir, journal.Holder{})
	if errors.Is(err, journal.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.changed() { // by the session that had the lock before
		return l.Release()
	}
	journals, err := filepath.Glob(filepath.Join(base, "data", "*", "journal"))
	for _, j := range journals {
		err = errors.Join(err, ignoreAbsent(os.Remove(j)))
		_ = os.Remove(filepath.Join(filepath.Dir(j), "saved")) // stays when it holds something
		_ = os.Remove(filepath.Dir(j))
	}
	// Not the whole directory: the next lock may be in it once this one is gone.
	err = errors.Join(err, os.Remove(filepath.Join(dir, "lock")))
	_ = os.Remove(dir)
	err = errors.Join(err, l.Release())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.made {
		_ = os.Remove(made) // stays when something else came into it
	}
	return err
}

// removeEmpty removes dir and its parents up to top, as far as they are empty;
// only dir when top is none of them.
func removeEmpty(dir, top string) {
	if top == "" || dir != top && !strings.HasPrefix(dir, top+"/") {
		return
	}
	for ; os.Remove(dir) == nil && dir != top; dir = filepath.Dir(dir) {
	}
}

// notThere are those of the directories that are not there.
func notThere(dirs ...string) (out []string) {
	for _, d := range dirs {
		if _, err := os.Lstat(d); errors.Is(err, fs.ErrNotExist) {
			out = append(out, d)
		}
	}
	return out
}
