package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// explainArgs makes every command below cmd say how it is used when it is given
// too few or too many arguments, in place of cobra's words.
func explainArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainArgs(c)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var usage usageError
		if err == nil || errors.As(err, &usage) || cmd.ValidArgs != nil {
			return err
		}
		got := "no argument"
		if len(args) > 0 {
			got = fmt.Sprintf("%s: %q", counted(len(args), "argument", "arguments"), args)
		}
		return usagef("%s was given %s; it is used as: %s", cmd.CommandPath(), got, cmd.UseLine())
	}
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, not %q; it is used as: %s", cmd.CommandPath(), args[0], cmd.UseLine())
	}
	return nil
}

// subcommand refuses arguments of a command that has only subcommands, and
// suggests the similar ones.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default for the commands of the root
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
	}
	return usagef("%s", text)
}

// help is cobra's help command, except that an unknown command is an error.
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
