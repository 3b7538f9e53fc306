// Package storetest opens stores for the tests of packages that use one.
package storetest

import (
	"testing"

	"github.com/clusterimage/sealer/store"
)

// New opens an empty store, which is closed when the test ends; an error fails the
// test.
func New(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
