package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes of sealer, as every help text names them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitIncomplete  = 3
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes: 0 done, 1 failed, 2 wrong usage, 3 incomplete (images missing,
verification failed), 130 interrupted.`

// errIncomplete marks an error whose cause is that images are missing or that
// a verification failed.
var errIncomplete = errors.New("incomplete")

// incompleteError makes err exit with 3.
type incompleteError struct{ error }

func (e incompleteError) Unwrap() error        { return e.error }
func (e incompleteError) Is(target error) bool { return target == errIncomplete }

// usageError makes err exit with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef reports a wrong use of the command line.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// adviceError carries what the user should do next, printed as the last line.
type adviceError struct {
	error
	advice string
}

func (e adviceError) Unwrap() error { return e.error }

// advise adds advice to err: what to do next, one line.
func advise(err error, advice string) error {
	if err == nil {
		return nil
	}
	return adviceError{err, advice}
}

// report prints err as a user should see it and returns the exit code. What
// failed before the command had begun to run is a wrong usage.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	w := a.Err
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil {
		fmt.Fprintln(w, "sealer: interrupted; run the same command again to go on")
		return exitInterrupted
	}
	var usage usageError
	isUsage := errors.As(err, &usage) || !a.started
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	switch {
	case len(lines) == 1 || !a.started: // cobra's suggestions are lines of one error
		fmt.Fprintf(w, "Error: %s\n", strings.Join(lines, "\n"))
	default:
		fmt.Fprintf(w, "Error: %d faults:\n", len(lines))
		for _, l := range lines {
			fmt.Fprintf(w, "  %s\n", l)
		}
	}
	var advice adviceError
	switch {
	case errors.As(err, &advice):
		fmt.Fprintln(w, advice.advice)
	case isUsage:
		fmt.Fprintf(w, "See: %s --help\n", cmd.CommandPath())
	default:
		if hint := a.hint(err); hint != "" {
			fmt.Fprintln(w, hint)
		}
	}
	switch {
	case isUsage:
		return exitUsage
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	}
	return exitFailed
}
