package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The first word that a program started with a password reads. Were the
// password not taken by sudo, because it asked for none this time, the password
// would be read in its place: the program then ends before it sees a byte.
const sudoTaken = "sealer"

// unaskedStatus is the status of a command whose password sudo did not take.
const unaskedStatus = 97

// root is how commands of one host become root's.
type root int

const (
	rootUnknown  root = iota
	rootAlready       // the user is root
	rootFree          // sudo asks for no password
	rootPassword      // sudo wants the password
)

// become wraps c so that it runs as root.
func (r root) become(c Command, password string) Command {
	switch r {
	case rootFree:
		c.Args = []string{"sudo", "-n", "--", "sh", "-c", c.script()}
	case rootPassword:
		guard := fmt.Sprintf(`IFS= read -r l; [ "$l" = %s ] || exit %d; `, sudoTaken, unaskedStatus)
		c.Args = []string{"sudo", "-k", "-S", "-p", "", "--", "sh", "-c", guard + c.script()}
		in := io.Reader(strings.NewReader(password + "\n" + sudoTaken + "\n"))
		if c.Stdin != nil {
			in = io.MultiReader(in, c.Stdin)
		}
		c.Stdin = in
	default:
		return c
	}
	c.Dir, c.Env, c.AsUser = "", nil, true
	return c
}

// A NoRootError says that the user of a host cannot become root there.
type NoRootError struct {
	User   string
	Reason string // of sudo
}

func (e *NoRootError) Error() string {
	return fmt.Sprintf("user %s cannot become root: %s", e.User, e.Reason)
}

// findRoot asks a host how its user becomes root. run runs a command as the
// user; user and password belong to the connection.
func findRoot(ctx context.Context, run func(context.Context, Command) error, user, password string) (root, error) {
	var uid strings.Builder
	err := run(ctx, Command{Args: []string{"id", "-u"}, Stdout: &uid})
	var exit *ExitError
	if errors.As(err, &exit) { // as of an account whose shell is nologin
		return rootUnknown, fmt.Errorf("user %s can run no command there, give it a login shell: %s: %w", user, lastLine(uid.String()), err)
	}
	if err != nil {
		return rootUnknown, err
	}
	if lastLine(uid.String()) == "0" {
		return rootAlready, nil
	}
	err = run(ctx, Command{Args: []string{"sudo", "-n", "-k", "--", "sh", "-c", "exit 0"}})
	switch {
	case err == nil:
		return rootFree, nil
	case !errors.As(err, &exit):
		return rootUnknown, err
	case exit.Status == 127:
		return rootUnknown, &NoRootError{user, "there is no sudo"}
	case password == "":
		return rootUnknown, &NoRootError{user, "sudo wants a password (" + lastLine(exit.Stderr) + "), and none was given"}
	}
	ask := Command{
		Args:  []string{"sudo", "-k", "-S", "-p", "", "--", "sh", "-c", "exit 0"},
		Stdin: strings.NewReader(password + "\n"),
	}
	if err := run(ctx, ask); errors.As(err, &exit) {
		return rootUnknown, &NoRootError{user, lastLine(exit.Stderr)}
	} else if err != nil {
		return rootUnknown, err
	}
	return rootPassword, nil
}

// explain makes an error of the guard's status.
func (r root) explain(c Command, err error) error {
	var exit *ExitError
	if r == rootPassword && errors.As(err, &exit) && exit.Status == unaskedStatus {
		return fmt.Errorf("run %s: sudo did not ask for the password this time; nothing was run", c.Args[0])
	}
	if errors.As(err, &exit) {
		exit.Program = c.Args[0]
	}
	return err
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
