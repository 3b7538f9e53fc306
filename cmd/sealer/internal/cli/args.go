package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, not %q; it is used as: %s", cmd.CommandPath(), args[0], cmd.UseLine())
	}
	return nil
}

// subcommand refuses arguments of a command that has only subcommands, and
// suggests those that look alike.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // as for the commands of sealer
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
	}
	return usagef("%s", text)
}

// help is cobra's command of that name, to which an unknown command is an error.
func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Args: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			return subcommand(about, rest)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
