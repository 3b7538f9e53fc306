// Reference writes the pages about sealer's commands out of the commands
// themselves: one Markdown page with all of them, or a directory of man pages.
//
//	go run ./cmd/sealer/reference -markdown docs/reference.md
//	go run ./cmd/sealer/reference -man DIR
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/clusterimage/sealer/cmd/sealer/internal/cli"
)

func main() {
	markdown := flag.String("markdown", "", "write one Markdown page with all commands to this file")
	man := flag.String("man", "", "write a man page for each command into this directory")
	flag.Parse()
	if err := write(*markdown, *man); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(markdown, man string) error {
	var errs []error
	if markdown != "" {
		b, err := page(tree())
		if err == nil {
			err = os.WriteFile(markdown, b, 0o644)
		}
		errs = append(errs, err)
	}
	if man != "" {
		errs = append(errs, os.MkdirAll(man, 0o755), doc.GenManTree(tree(), &doc.GenManHeader{
			// The date is that of SOURCE_DATE_EPOCH, where it is set.
			Section: "1", Source: "sealer " + cli.Version, Manual: "sealer",
		}, man))
	}
	return errors.Join(errs...)
}

func tree() *cobra.Command {
	root := cli.Command(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	root.DisableAutoGenTag = true
	return root
}

const head = `# The commands

Written by ` + "`make reference`" + ` from the program's own help; change the help, not this page.

`

// seeAlso is the end of a command's page: links to the pages of its neighbours,
// which are parts of the same page here.
var seeAlso = regexp.MustCompile(`(?s)### SEE ALSO.*$`)

// inherited are the options of every command, which the page shows once.
var inherited = regexp.MustCompile("(?s)### Options inherited from parent commands\n\n```.*?```\n")

// page returns the Markdown page of root and all commands below.
func page(root *cobra.Command) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(head)
	err := each(root, func(c *cobra.Command) error {
		c.DisableAutoGenTag = true
		var one bytes.Buffer
		if err := doc.GenMarkdown(c, &one); err != nil {
			return fmt.Errorf("describe %s: %w", c.CommandPath(), err)
		}
		text := inherited.ReplaceAllString(seeAlso.ReplaceAllString(one.String(), ""), "")
		out.WriteString(strings.TrimSpace(text) + "\n\n")
		return nil
	})
	return append(bytes.TrimSpace(out.Bytes()), '\n'), err
}

// each calls f for c and the commands below it that a user sees.
func each(c *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			if err := each(sub, f); err != nil {
				return err
			}
		}
	}
	return nil
}
