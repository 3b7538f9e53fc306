package rootfs

import (
	"errors"
	"io"
	"os"
)

// CommandArgument, as the first argument of a program, asks it to call
// CommandChild. The program that calls RunCommand must do so.
const CommandArgument = "sealer-mounted-command"

// A Command is a command that sees an overlay, in a mount namespace of its own:
// the mount ends with the command, and nobody else sees it.
type Command struct {
	Overlay Overlay
	Target  string   // an existing directory, where the overlay appears
	Args    []string // the program, found on PATH, and its arguments
	Env     []string
	// User runs the command in a user namespace, too, in which this process's
	// user is root. Overlay.UserXattr must be set then.
	User bool

	In       io.Reader
	Out, Err io.Writer
}

// ErrNamespace is wrapped by the error of a kernel that does not let this user
// make the namespaces, or mount in them.
var ErrNamespace = errors.New("the kernel refuses a user namespace")

// MountsPrivately reports whether this process may mount only in a user namespace
// of its own, as an ordinary user.
func MountsPrivately() bool { return os.Geteuid() != 0 || !mayMount() }
