// Package sandbox runs one command in Linux namespaces over a writable rootfs.
//
// The program that calls Start starts itself again as the first process of the
// namespaces: its main function must call Child, and nothing else, when its
// first argument is ChildArgument. Start makes the namespaces, Run mounts the
// layers and runs the command, and the caller reads the changes from the upper
// directory of overlayfs, Upper in Options.Dir. A command that could not be
// started or did not succeed is an *ExitError or an error that says which
// facility of the machine is missing.
package sandbox

import (
	"fmt"
	"io"
	"io/fs"
)

const (
	// ChildArgument is the first argument of a program that shall call Child.
	ChildArgument = "run-in-namespace"
	// Root is the rootfs for a command that also sees the machine's files. The
	// path is the same on every machine, since commands print and store it.
	Root = "/mnt/rootfs"
	// Upper is the name, in Options.Dir, of overlayfs's upper directory.
	Upper = "upper"
)

// Options describe a sandbox. The zero value shares the machine's network, shows
// the machine's files and discards output.
type Options struct {
	// Dir is an empty directory for the writable layer and the mounts. It must
	// be on a file system that overlayfs can write to. The caller removes it.
	Dir    string
	Chroot bool // the rootfs alone, without the machine's files
	// Hide are directories of the machine that the command must not see, such
	// as a store below /opt.
	Hide []string
	// NoNetwork gives the command a network namespace with a loopback
	// interface only.
	NoNetwork bool
	Output    io.Writer // the command's stdout and stderr, in order; nil discards
}

// A Command is one program to run in a sandbox.
type Command struct {
	Layers []string // directories for overlayfs, lowest first
	Args   []string // Args[0] is searched on the PATH of Env
	Env    []string // NAME=VALUE, all of the environment
	Files  []File   // written to memory before the command starts
}

// A File is visible to the command and never part of the upper directory.
type File struct {
	Path    string // below /run or /tmp; "" for none
	Mode    fs.FileMode
	Env     string // also a variable of this name, "" for none
	Content []byte
}

// An ExitError is the exit code of a command: 128 and the signal for one that a
// signal ended.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string {
	if e.Code > 128 && e.Code < 128+65 {
		return fmt.Sprintf("the command was ended by signal %d", e.Code-128)
	}
	return fmt.Sprintf("the command ended with exit code %d", e.Code)
}
