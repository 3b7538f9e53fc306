//go:build !linux

package main

import (
	"errors"

	"github.com/rogpeppe/go-internal/testscript"
)

// killAfter needs process groups and the machines of run.txtar, which are Linux.
func killAfter(*testscript.TestScript, string, []string) error {
	return errors.New("killrun: needs Linux")
}
