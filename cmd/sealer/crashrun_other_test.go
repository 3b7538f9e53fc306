//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// crashrun needs the machines of run-crash.txtar, which are Linux.
func crashrun(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("crashrun: needs Linux") }
