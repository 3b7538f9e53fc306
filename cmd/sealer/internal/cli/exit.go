package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/ref"
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

// errIncomplete is wrapped by an error about missing images or a failed
// verification.
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

// commandError makes sealer exit with the code of a command that it ran for the
// user, which has said why.
type commandError struct{ code int }

func (e commandError) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", e.code)
}

// adviceError carries advice for the user, printed as the last line.
type adviceError struct {
	error
	advice string
}

func (e adviceError) Unwrap() error { return e.error }

// advise adds advice to err: the next step for the user, one line.
func advise(err error, advice string) error {
	if err == nil {
		return nil
	}
	return adviceError{err, advice}
}

func isNoChart(err error) bool {
	var unknown *imagelist.NoChartError
	return errors.As(err, &unknown)
}

// noChart makes a wrong use of err, a value for a chart that is not there, and
// names the chart that may be meant.
func noChart(err error) error {
	var unknown *imagelist.NoChartError
	if errors.As(err, &unknown) {
		if like := kubefile.Suggest(unknown.Name, unknown.Known); like != "" {
			return usageError{advise(err, "Did you mean "+like+"?")}
		}
	}
	return usageError{err}
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --([^ =]+)`)

// missingFlags names the flags that cmd cannot do without and was not given, with
// what each says.
func missingFlags(cmd *cobra.Command) error {
	if cmd.ValidateRequiredFlags() == nil {
		return nil
	}
	var lacks []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			kind, about := pflag.UnquoteUsage(f)
			lacks = append(lacks, fmt.Sprintf("--%s %s (%s)", f.Name, kind, about))
		}
	})
	return usagef("%s needs %s", cmd.CommandPath(), strings.Join(lacks, " and "))
}

// similarFlag adds the flag of cmd that an unknown one may mean.
func similarFlag(cmd *cobra.Command, err error) error {
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if like := kubefile.Suggest(m[1], names); like != "" {
		return advise(err, "Did you mean --"+like+"? See: "+cmd.CommandPath()+" --help")
	}
	return err
}

// faults returns the single faults of err, below the marks of this package.
func faults(err error) []error {
	switch e := err.(type) { //nolint:errorlint // a mark inside a fault does not divide it
	case adviceError:
		return faults(e.error)
	case usageError:
		return faults(e.error)
	case incompleteError:
		return faults(e.error)
	}
	list := build.Faults(err)
	if len(list) < 2 {
		return list
	}
	var out []error
	for _, e := range list {
		out = append(out, faults(e)...)
	}
	return out
}

// redacted returns text without the passwords of the arguments, such as
// user:password@host/image: many packages name the argument that is wrong.
func (a *app) redacted(text string) string {
	for _, arg := range a.args {
		safe := ref.Redact(arg)
		if safe == arg {
			continue
		}
		quoted, safeQuoted := strconv.Quote(arg), strconv.Quote(safe)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], safeQuoted[1:len(safeQuoted)-1])
		text = strings.ReplaceAll(text, arg, safe)
	}
	return text
}

// report prints err for the user and returns the exit code. An error from before
// the command began to run is a wrong usage.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	w := a.Err
	if err == nil {
		return exitDone
	}
	var command commandError
	if errors.As(err, &command) {
		return command.code
	}
	if ctx.Err() != nil {
		printLine(w, "sealer: interrupted; run the same command again to go on")
		return exitInterrupted
	}
	var usage usageError
	isUsage := errors.As(err, &usage) || !a.started
	list := faults(err)
	if len(list) == 1 {
		printText(w, a.redacted("Error: "+strings.TrimRight(list[0].Error(), "\n")+"\n"))
	} else {
		printf(w, "Error: %d faults:\n", len(list))
		for _, e := range list {
			printText(w, a.redacted("  "+strings.ReplaceAll(strings.TrimRight(e.Error(), "\n"), "\n", "\n  ")+"\n"))
		}
	}
	var advice adviceError
	switch {
	case errors.As(err, &advice):
		printLine(w, advice.advice)
	case isUsage:
		printf(w, "See: %s --help\n", cmd.CommandPath())
	default:
		if hint := a.hint(err); hint != "" {
			printLine(w, hint)
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
