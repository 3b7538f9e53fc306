package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/store"
)

// ServerOptions are how a Server works. The zero value is this machine.
type ServerOptions struct {
	// Root is the directory that all paths are below; "" is "/".
	Root string
	// Store is the image store; "" is DefaultBase.
	Store string
	// Program is the path of sealer for units; "" is this program.
	Program string
	// Kubeconfig is the administrator's file; "" is kubeadm's admin.conf.
	Kubeconfig string
}

// DefaultBase is the directory of a node that holds the store, the clusters and
// sealer itself.
const DefaultBase = "/var/lib/sealer"

// A Server is the far end of a session: it answers for one machine. It is safe
// for concurrent use; one Server works on one cluster at a time.
type Server struct {
	o ServerOptions

	mu      sync.Mutex
	lock    *journal.Lock
	machine *Machine
	blobs   *store.Store // open while blobs come or go
	made    []string     // directories that were not there before Open
	peers   *spread.Server
}

// NewServer makes a Server.
func NewServer(o ServerOptions) *Server {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Store == "" {
		o.Store = filepath.Join(o.Root, DefaultBase)
	}
	if o.Program == "" {
		if p, err := os.Executable(); err == nil {
			o.Program = p
		}
	}
	return &Server{o: o}
}

// dataDir is the directory of a cluster on the machine.
func (s *Server) dataDir(cluster string) string {
	return filepath.Join(s.o.Root, DefaultBase, "data", cluster)
}

func (s *Server) units(cluster string) Units {
	if s.o.Root == "/" && HasSystemd() {
		return Systemd{}
	}
	return Supervisor{Dir: filepath.Join(s.dataDir(cluster), "units"), Root: s.o.Root, Program: s.o.Program}
}

// A LookRequest asks for the state of the machine. Answering it changes
// nothing.
type LookRequest struct {
	Cluster string   `json:"cluster"`
	Blobs   []string `json:"blobs,omitempty"` // which of them does the store lack
	Files   []string `json:"files,omitempty"` // absolute paths
}

// Look returns the state of the machine, read from its store, its journals and
// its files. The Facts of the Node are left empty.
func (s *Server) Look(ctx context.Context, q LookRequest) (plan.Node, error) {
	m := &Machine{Root: s.o.Root, Store: s.o.Store, Cluster: q.Cluster}
	n := plan.Node{Store: s.o.Store, Files: map[string]plan.File{}}
	var err error
	if n.Missing, err = m.missing(ctx, q.Blobs); err != nil {
		return n, err
	}
	entries, err := os.ReadDir(filepath.Join(s.o.Root, DefaultBase, "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return n, err
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(s.dataDir(e.Name()), "journal")); err == nil {
			n.Clusters = append(n.Clusters, e.Name())
		}
	}
	records, err := journal.Read(s.dataDir(q.Cluster))
	if err != nil {
		return n, err
	}
	ours := map[string]string{}
	n.Role = role(records)
	for _, r := range records.Inventory() {
		n.Changes = append(n.Changes, r.Change.What+" "+r.Change.Name)
		ours[r.Change.Name] = r.Change.Now
	}
	for _, name := range q.Files {
		f, err := look(m.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		now, ok := ours[name]
		f.Ours = ok && (now == f.Digest || now == f.Link)
		n.Files[name] = f
	}
	return n, nil
}

// role is the part in the cluster that kubeadm gave the machine, as far as nothing
// has undone it.
func role(records journal.Records) (role string) {
	begun := ""
	for _, r := range records {
		switch {
		case r.Event == journal.Begin && r.Kind == "kubeadm.init":
			begun = plan.RoleFirst
		case r.Event == journal.Begin && r.Kind == "kubeadm.join":
			var a plan.KubeadmArgs
			begun = plan.RoleWorker
			if json.Unmarshal(r.Args, &a) == nil && a.Master {
				begun = plan.RoleMaster
			}
		case r.Event == journal.End && (r.Kind == "kubeadm.init" || r.Kind == "kubeadm.join"):
			role = begun
		case r.Event == journal.Undone && r.Change != nil && r.Change.What == journal.Kube:
			role = ""
		}
	}
	return role
}

func look(path string) (plan.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return plan.File{}, err
	}
	f := plan.File{Mode: uint32(info.Mode().Perm()), Dir: info.IsDir()}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(path)
	case info.Mode().IsRegular():
		f.Digest, err = digestFile(path)
	}
	return f, err
}

// errClosed is the error of work before Open.
var errClosed = errors.New("no cluster is open on this machine")

// Open begins the work on a cluster: it takes the machine's lock and opens the
// journal. The error wraps journal.ErrLocked when somebody else has it.
//
// Programs that a session of the machine left running when it died are ended
// first.
func (s *Server) Open(ctx context.Context, cluster string, h journal.Holder) (_ journal.Records, err error) {
	if cluster == "" || strings.ContainsAny(cluster, "/\x00") || cluster[0] == '.' || cluster == "overlay2" {
		return nil, fmt.Errorf("cluster %q: no name for a cluster", cluster)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machine != nil {
		return nil, fmt.Errorf("cluster %s is open already", s.machine.Cluster)
	}
	// The lock lies outside of the cluster's directory, which delete removes,
	// and covers all clusters of the machine.
	base := filepath.Join(s.o.Root, DefaultBase)
	s.made = notThere(filepath.Join(base, "data"), base)
	l, err := acquire(filepath.Join(base, "lock.d"), h)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(s.dataDir(cluster), journal.Options{})
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	m := s.machineOf(cluster, j)
	if err := m.endOrphans(ctx); err != nil {
		return nil, errors.Join(err, j.Close(), l.Release())
	}
	s.lock, s.machine = l, m
	return j.Records(), nil
}

func (s *Server) machineOf(cluster string, j *journal.Journal) *Machine {
	return &Machine{
		Root: s.o.Root, Cluster: cluster, Store: s.o.Store, Program: s.o.Program, Kubeconfig: s.o.Kubeconfig, Journal: j, Units: s.units(cluster),
	}
}

// open returns the machine that Open opened.
func (s *Server) open() (*Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machine == nil {
		return nil, errClosed
	}
	return s.machine, nil
}

// Close ends the work and frees the lock.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.peers != nil {
		errs = append(errs, s.peers.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.machine != nil {
		errs = append(errs, s.machine.Journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
	}
	s.peers, s.blobs, s.machine, s.lock = nil, nil, nil, nil
	return errors.Join(errs...)
}

// A CheckRequest asks which steps are done.
type CheckRequest struct {
	Cluster string      `json:"cluster"`
	Steps   []plan.Step `json:"steps"`
}

// Check returns the IDs of the steps whose results are there. It needs no Open
// and changes nothing: it reads a copy of the journal.
func (s *Server) Check(ctx context.Context, q CheckRequest) ([]string, error) {
	records, err := journal.Read(s.dataDir(q.Cluster))
	if err != nil || len(records) == 0 {
		return nil, err
	}
	m := s.machineOf(q.Cluster, journal.Closed(s.dataDir(q.Cluster), records))
	var done []string
	for _, step := range q.Steps {
		ok, err := m.Check(ctx, step)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Kind, err)
		}
		if ok {
			done = append(done, step.ID)
		}
	}
	return done, nil
}

// Run runs one step and returns the records that the step wrote into the
// journal.
func (s *Server) Run(ctx context.Context, o Order) (Result, journal.Records, error) {
	m, err := s.open()
	if err != nil {
		return Result{}, nil, err
	}
	before := len(m.Journal.Records())
	r, err := m.Run(ctx, o)
	return r, m.Journal.Records()[before:], err
}

// Undo puts back all that was changed for the cluster; with forget, the
// cluster's directory goes, too, and all of sealer where nothing else needs it:
// no other cluster and, when purge is set, no image.
func (s *Server) Undo(ctx context.Context, forget, purge bool, say func(string)) error {
	m, err := s.open()
	if err != nil {
		return err
	}
	if say == nil {
		say = func(string) {}
	}
	if err := m.Undo(ctx, say); err != nil || !forget {
		return err
	}
	dir, base := m.Dir(), filepath.Join(s.o.Root, DefaultBase)
	if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
		return err
	}
	data := filepath.Dir(dir)
	left, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	others := slices.ContainsFunc(left, func(e fs.DirEntry) bool {
		_, err := os.Stat(filepath.Join(data, e.Name(), "journal"))
		return err == nil
	})
	if others {
		return nil
	}
	if purge && !hasImages(ctx, s.o.Store) {
		return os.RemoveAll(base)
	}
	if err := os.RemoveAll(filepath.Join(base, "lock.d")); err != nil {
		return err
	}
	_ = os.Remove(data) // not when the store has layers there
	_ = os.Remove(base)
	return nil
}

// hasImages says whether a store has any image; one that cannot be read may.
func hasImages(ctx context.Context, dir string) bool {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return true
	}
	images, err := s.Images(ctx)
	return errors.Join(err, s.Close()) != nil || len(images) > 0
}
