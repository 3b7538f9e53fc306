package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/rootfs"
	"github.com/clusterimage/sealer/store"
)

func (a *app) mount() *cobra.Command {
	var o output
	var only platformFlag
	var options store.MountOptions
	cmd := &cobra.Command{
		Use:   "mount [IMAGE [DIR]] [-- COMMAND [ARG...]]",
		Short: "Show the files of an image in a directory",
		Long: `Mount the merged file tree of an image with overlayfs, at DIR or in the store,
and print where. Without arguments, list what is mounted. Only root may do so. The
image's layers stay until sealer umount, whatever is removed. Setuid bits and
device nodes do not count.

With -- COMMAND, run the command, or without one a shell, in namespaces of its own
that see the mount; it begins in the tree, which SEALER_MOUNT names, and the mount
ends with it. Every user may do so where the kernel has user namespaces: the user
is root in it, and has no more rights than before. The exit code is the command's.

With --rw files may be changed, and the image stays as it is. The changes end with
the mount, or are kept in a directory: --changes DIR.`,
		Example: `  sealer mount my-app:v1 /mnt
  sealer mount my-app:v1 -- ls -l etc
  sealer mount --rw --changes work my-app:v1 -- sh -c 'echo debug > etc/level'`,
		Args:              mountArgs,
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if options.Changes != "" && !options.ReadWrite {
				return usagef("--changes DIR goes with --rw")
			}
			options.Platform = only.Platform
			dash := cmd.ArgsLenAtDash()
			names := args
			if dash >= 0 {
				names = args[:dash]
			}
			if len(names) == 2 {
				options.Dir = names[1]
			}
			return a.withStore(func(s *store.Store) error {
				switch {
				case len(args) == 0:
					return a.printMounts(&o, s)
				case dash >= 0:
					return a.mountFor(cmd.Context(), s, names[0], options, args[dash:])
				}
				return a.mountHere(cmd.Context(), s, names[0], options, &o)
			})
		},
	}
	cmd.Flags().Var(&only, "platform", "the platform of a multi-platform image")
	cmd.Flags().BoolVar(&options.ReadWrite, "rw", false, "let files be changed, over the image")
	cmd.Flags().StringVar(&options.Changes, "changes", "", "with --rw, keep the changes in this `DIR`, in its directory upper")
	o.flags(cmd, "text")
	return cmd
}

// mountArgs wants at most an image and a directory, before the command if there is one.
func mountArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		return cobra.MaximumNArgs(2)(cmd, args)
	}
	if dash < 1 || dash > 2 {
		return usagef("before -- stand the image, and maybe a directory")
	}
	return nil
}

// mountHere mounts the image until sealer umount, and prints where.
func (a *app) mountHere(ctx context.Context, s *store.Store, image string, options store.MountOptions, o *output) error {
	m, err := s.Mount(ctx, image, options)
	if errors.Is(err, fs.ErrPermission) {
		return advise(err, "Run a command that sees the files: sealer mount "+image+" -- COMMAND; or write them without root: sealer export "+image+" DIR")
	}
	if err != nil {
		return notFound(err)
	}
	return o.print(a.Out, m, func(w io.Writer) error { _, err := printLine(w, m.Dir); return err })
}

// mountFor runs a command, or a shell, that sees the image.
func (a *app) mountFor(ctx context.Context, s *store.Store, image string, o store.MountOptions, args []string) (err error) {
	if len(args) == 0 {
		args = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")}
	}
	user := rootfs.MountsPrivately()
	v, err := s.View(ctx, image, o, user)
	if err != nil {
		return notFound(err)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	// A terminal sends the signal of Ctrl-C to the command, too, and a shell goes on.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	code, err := rootfs.RunCommand(ctx, rootfs.Command{
		Overlay: v.Overlay, Target: v.Dir, Args: args, Env: append(os.Environ(), "SEALER_MOUNT="+v.Dir), User: user,
		In: a.In, Out: a.raw.Out, Err: a.raw.Err,
	})
	switch {
	case errors.Is(err, rootfs.ErrNamespace):
		return advise(fmt.Errorf("mount %s: %w", image, err), namespaceAdvice+"; or write the files: sealer export "+image+" DIR")
	case err != nil:
		return fmt.Errorf("mount %s: %w", image, err)
	case code != 0:
		return commandError{code}
	}
	return nil
}

// namespaceAdvice names the settings that user namespaces need.
const namespaceAdvice = "Run it as root, or let users make namespaces (sysctl, where they exist: kernel.unprivileged_userns_clone=1, " +
	"user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0; Linux 5.11; in a container one that is --privileged)"

func (a *app) printMounts(o *output, s *store.Store) error {
	all, err := s.Mounts()
	if err != nil {
		return err
	}
	return o.print(a.Out, all, func(w io.Writer) error {
		var rows [][]string
		for _, m := range all {
			rows = append(rows, []string{m.Image, m.ID[:12], m.Dir})
		}
		return table(w, []string{"IMAGE", "ID", "DIRECTORY"}, rows)
	}, anys(all)...)
}
