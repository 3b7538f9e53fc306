package cli

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) pull() *cobra.Command {
	var r registryFlags
	var platforms string
	var verify keyFlag
	var quiet bool
	cmd := &cobra.Command{
		Use:   "pull NAME...",
		Short: "Bring images from a registry into the store",
		Long: `Bring images from a registry into the store. What the store has is not asked for
again. Of an image for several platforms all come, or those of --platform. A pull
that was interrupted, or killed, is gone on with by the next one: inside a blob,
too, where it has more than 8 MiB.

NAME:TAG gets that name here. NAME@DIGEST and NAME:TAG@DIGEST bring exactly that
content and name nothing, since the tag may mean another image: use the ID, or
sealer tag.`,
		Example: `  sealer pull registry.example/team/my-app:v1
  sealer pull registry.example/team/my-app:v1 --verify-key cosign.pub   # only if this key has signed it`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := platform.ParseList(platforms)
			if err != nil {
				return usageError{err}
			}
			key, err := verify.key()
			if err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				var errs []error
				for _, name := range args {
					d, err := a.pullOne(cmd.Context(), s, c, name, want, key, quiet)
					if err != nil {
						errs = append(errs, err)
						continue
					}
					if quiet {
						printLine(a.Out, d)
						continue
					}
					printf(a.Out, "%s  %s\n", name, d)
				}
				return errors.Join(errs...)
			})
		},
	}
	verify.flag(cmd.Flags(), "take an image")
	cmd.Flags().StringVar(&platforms, "platform", "", "bring only these platforms, separated by commas (default all)")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the digest")
	r.add(cmd.Flags())
	a.limitFlags(cmd.Flags())
	return cmd
}

func (a *app) pullOne(ctx context.Context, s *store.Store, c *remote.Client, name string, platforms []ocispec.Platform, key *sign.Verifier, quiet bool) (digest.Digest, error) {
	from, err := ref.Parse(name)
	if err != nil {
		return "", err
	}
	p := a.newProgress(quiet)
	o := remote.PullOptions{Platforms: platforms, Progress: p.transfer}
	var desc ocispec.Descriptor
	if key != nil {
		desc, err = transfer.PullSigned(ctx, s, c, from, key, o)
	} else {
		desc, err = transfer.Pull(ctx, s, c, from, o)
	}
	p.Close()
	if err == nil && from.Tag != "" && len(transfer.Names(from)) == 0 {
		tag := from
		tag.Digest = ""
		printf(a.Err, "%s is not set, since the reference has a digest; to set it: sealer tag %s %s\n", tag.Familiar(), desc.Digest.Encoded()[:12], tag.Familiar())
	}
	return desc.Digest, err
}
