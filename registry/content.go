package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/opencontainers/go-digest"
)

const (
	defaultLinger = 10 * time.Minute
	maxEarlier    = 8 // contents kept beside the current one, whatever Linger says
)

// content is what a Handler serves until Replace.
type content struct {
	app     *handlers.App
	layers  *layers
	names   *names
	release func() error
	uses    sync.WaitGroup // requests that may read it
}

func openContent(ctx context.Context, all []Layer, o Options) (*content, error) {
	l, err := openLayers(all)
	if err != nil {
		return nil, err
	}
	c := &content{layers: l, names: newNames(l, o), release: o.Release}
	if c.app, err = newApp(quieten(context.WithoutCancel(ctx), o.Logger), l); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return c, nil
}

// close waits for the requests that read c. No new ones may come.
func (c *content) close() error {
	c.uses.Wait()
	err := errors.Join(c.app.Shutdown(), c.layers.close())
	if c.release != nil {
		err = errors.Join(err, c.release())
	}
	return err
}

// contents are the current content and earlier ones. A client that has begun to
// pull an image asks for the blobs of the manifest that it has read, whatever
// the tag means by then.
type contents struct {
	linger time.Duration
	log    *slog.Logger

	mu  sync.RWMutex
	all []*content // the current one first
	end []*time.Timer
}

// replace makes c the current content.
func (s *contents) replace(c *content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append([]*content{c}, s.all...)
	if len(s.all) > 1 {
		old := s.all[1]
		s.end = append(s.end, time.AfterFunc(s.linger, func() { s.retire(old) }))
	}
	if len(s.all) > 1+maxEarlier {
		go s.retire(s.all[len(s.all)-1])
	}
}

// retire closes old when its last request has ended.
func (s *contents) retire(old *content) {
	if !s.remove(old) {
		return // by Close, or by a later replace
	}
	if err := old.close(); err != nil {
		s.log.Warn("close the content that was served before", "error", err)
	}
}

func (s *contents) remove(old *content) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.all {
		if c == old {
			s.all = append(s.all[:i:i], s.all[i+1:]...)
			return true
		}
	}
	return false
}

// use returns all contents, and what to call when they are no longer read.
func (s *contents) use() (all []*content, done func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.all {
		c.uses.Add(1) // before remove, and so before close waits
	}
	all = s.all
	return all, func() {
		for _, c := range all {
			c.uses.Done()
		}
	}
}

func (s *contents) close() error {
	s.mu.Lock()
	all := s.all
	s.all = nil
	for _, t := range s.end {
		t.Stop()
	}
	s.mu.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// find returns the content and its repository that answer q. Only what is asked
// for by digest is found in earlier contents: a tag means what it means now.
func find(all []*content, ns string, q request) (c *content, repository string, ok bool) {
	byDigest := digest.Digest(q.reference).Validate() == nil
	for i, c := range all {
		if i > 0 && !byDigest {
			break
		}
		if repository, ok := c.names.find(ns, q.name, q.kind, q.reference); ok {
			return c, repository, true
		}
	}
	return nil, "", false
}

// Replace serves other layers and names from the next request on, and reads
// o.Htpasswd again. Running requests are finished. What was served before is
// found by digest as long as Options.Linger of NewHandler says; then its Release
// is called. After an error everything is served as before, and o.Release is the
// caller's to call. Logger and Linger of o count for nothing.
func (h *Handler) Replace(ctx context.Context, layers []Layer, o Options) error {
	o.Logger = h.log
	users, err := optionalUsers(o.Htpasswd)
	if err != nil {
		return fmt.Errorf("replace registry content: %w", err)
	}
	c, err := openContent(ctx, layers, o)
	if err != nil {
		return fmt.Errorf("replace registry content: %w", err)
	}
	h.users.Store(users)
	h.contents.replace(c)
	return nil
}
