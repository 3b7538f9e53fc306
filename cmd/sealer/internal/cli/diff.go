package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) diff() *cobra.Command {
	var o output
	var only platformFlag
	cmd := &cobra.Command{
		Use:   "diff IMAGE IMAGE",
		Short: "Compare the files, the container images and the commands of two images",
		Long: `Compare two images: which files, container images and start commands the second
has more (+), lacks (-) or has otherwise (~), with the bytes of a container image
that the other one lacks. The last line says how many bytes must be carried to a
place that has the first, so that it has the second; sealer save --without the
first writes them.`,
		Example: `  sealer diff my-app:v1 my-app:v2
  sealer diff my-app:v1 my-app:v2 --format '{{.Carry.Bytes}}'`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				d, err := s.Diff(cmd.Context(), args[0], args[1], only.Platform)
				if err != nil {
					return notFound(err)
				}
				return o.print(a.Out, d, func(w io.Writer) error {
					if len(d.Files)+len(d.Images)+len(d.Commands)+d.Carry.Blobs == 0 {
						printf(a.Err, "no difference: %s and %s have the same files, container images and commands\n", args[0], args[1])
					}
					printChanges(w, "file", d.Files)
					printChanges(w, "image", d.Images)
					printChanges(w, "command", d.Commands)
					if d.Carry.Blobs > 0 {
						printf(w, "to carry: %d bytes in %d blobs (%s)\n", d.Carry.Bytes, d.Carry.Blobs, size(d.Carry.Bytes))
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().Var(&only, "platform", "the platform of multi-platform images")
	o.flags(cmd, "text")
	return cmd
}

func printChanges(w io.Writer, what string, changes []store.Change) {
	marks := map[string]string{"added": "+", "removed": "-", "changed": "~"}
	for _, c := range changes {
		if what == "command" {
			printf(w, "%s command  %s\n", marks[c.Kind], c.Name)
			continue
		}
		detail := c.From + c.To
		switch {
		case c.Kind == "changed" && c.From == c.To:
			detail = c.From + ", other content"
		case c.Kind == "changed":
			detail = c.From + " => " + c.To
		}
		if what == "image" {
			detail += ", " + size(c.Bytes)
		}
		printf(w, "%s %-5s %s  (%s)\n", marks[c.Kind], what, c.Name, detail)
	}
}
