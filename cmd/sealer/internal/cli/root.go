package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/printable"
	"github.com/clusterimage/sealer/store"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app holds the persistent flags and the streams of one run, so that tests can
// run commands concurrently.
type app struct {
	Streams
	// raw are the streams as they were given, maybe a terminal: for archives, for
	// the protocol of nodes and for the bar. Everything else is text, and goes to
	// Out and Err, which escape what could steer a terminal.
	raw     Streams
	args    []string // of the command line
	started bool

	root     string // --root
	debug    bool   // --debug
	progress string // --progress

	limits  store.Limits  // --limit
	wait    time.Duration // --wait
	running string        // the command, as in "sealer build"
}

// Main runs sealer with args and returns its exit code.
func Main(ctx context.Context, args []string, s Streams) int {
	out, errs := printable.NewWriter(s.Out), printable.NewWriter(s.Err)
	a := &app{Streams: Streams{In: s.In, Out: newScreen(out, s.Out), Err: newScreen(errs, s.Err)}, raw: s, args: args}
	cmd := a.command()
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	if lost := out.Close(); err == nil {
		err = lost
	}
	code := a.report(ctx, ran, err)
	_ = errs.Close() // a closed stderr is ignored: there is nowhere to report it
	return code
}

func (a *app) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sealer",
		Short: "Build, inspect, push and pull ClusterImages",
		Long: `sealer builds ClusterImages: one artifact that holds all that a Kubernetes
cluster or application needs where there is no internet: a rootfs, its start
commands, and a registry with every container image that will be pulled.

Flags that are typed often have a variable, SEALER_PROGRESS for --progress, and a
line in $XDG_CONFIG_HOME/sealer/config.yaml, "progress: plain":
` + strings.Join(settable, ", ") + `.
The command line counts before the variable, and that before the file.

` + exitCodesHelp,
		Version:       Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// cobra checks required flags only later, and a missing flag is a
			// wrong usage.
			if err := missingFlags(cmd); err != nil {
				return err
			}
			if cmd.Name() != "node" { // a machine works as the engine tells it
				if err := configure(cmd); err != nil {
					return err
				}
			}
			a.started, a.running = true, cmd.CommandPath()
			return a.check()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetIn(a.In)
	cmd.SetOut(a.Out)
	cmd.SetErr(a.Err)
	cmd.SetVersionTemplate(theVersion().String() + "\n")
	cmd.SetHelpCommand(help())
	cmd.SetFlagErrorFunc(similarFlag)
	f := cmd.PersistentFlags()
	f.StringVar(&a.root, "root", "", "the store's directory (default: SEALER_ROOT, else /var/lib/sealer for root, $XDG_DATA_HOME/sealer for others)")
	f.BoolVar(&a.debug, "debug", false, "log what is done, on stderr")
	f.StringVar(&a.progress, "progress", "auto", "progress on stderr: auto, plain, json or none")
	cmd.AddCommand(a.commands()...)
	cmd.SetHelpFunc(a.printHelp)
	group(cmd)
	explainArgs(cmd)
	return cmd
}

// commands are the commands of sealer, by name.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.applyCommand(),
		a.build(),
		a.cert(),
		a.checks(),
		a.completion(),
		a.delete(),
		a.diagnose(),
		a.diff(),
		a.exec(),
		a.export(),
		a.gen(),
		a.images(),
		a.info(),
		a.initialise(),
		a.inspect(),
		a.inventory(),
		a.join(),
		a.load(),
		a.login(),
		a.logout(),
		a.merge(),
		a.mount(),
		a.node(),
		a.plugin(),
		a.prune(),
		a.pull(),
		a.push(),
		a.redirect(),
		a.registry(),
		a.reports(),
		a.rmi(),
		a.run(),
		a.save(),
		a.scan(),
		a.search(),
		a.tag(),
		a.umount(),
		a.verify(),
		a.version(),
	}
}

// check refuses persistent flags with impossible values.
func (a *app) check() error {
	switch a.progress {
	case "auto", "plain", "json", "none":
		return nil
	}
	return usagef("--progress %q: want auto, plain, json or none", a.progress)
}

// logger returns the logger of the libraries: everything to stderr with --debug,
// else only warnings and errors.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, at slog.Attr) slog.Attr {
			if len(groups) == 0 && at.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return at
		},
	}))
}

// Command returns the tree of all commands, for pages that describe them.
func Command(s Streams) *cobra.Command {
	return (&app{Streams: s, raw: s}).command()
}
