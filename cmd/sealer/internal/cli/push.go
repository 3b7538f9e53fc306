package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) push() *cobra.Command {
	var r registryFlags
	var quiet bool
	var hint, signBy string
	var o transfer.PushOptions
	cmd := &cobra.Command{
		Use:   "push IMAGE [NAME]",
		Short: "Send an image to a registry",
		Long: `Send an image to the registry that its name begins with, or to the one of NAME.
Only what the registry lacks is sent. The digest there is the digest here.

The store remembers what it pushed to and pulled from each registry: of an image
like one that is there, in this repository or in another one, only the difference
is sent. Where another machine pushed such an image, --base-hint names it.

A registry that has the image is asked for the manifests of its platforms, and one
that it has lost is sent again. It is believed that it still has the blobs which its
manifests list: --verify asks for each blob, too, and sends those that are lost.`,
		Example: `  sealer push my-app:v2 registry.example.com/team/my-app:v2
  sealer push my-app:v2 registry.example.com/prod/my-app:v2 --base-hint registry.example.com/team/my-app:v1`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := imageName(args[len(args)-1])
			if err != nil {
				return err
			}
			if o.Base, err = baseHint(hint, to); err != nil {
				return err
			}
			key, err := signer(signBy)
			if err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error { return a.sendImage(cmd.Context(), s, c, args[0], to, o, key, quiet) })
		},
	}
	cmd.Flags().StringVar(&signBy, "sign-by", "", "sign the image with the private key in this `KEYFILE`, as cosign does; COSIGN_PASSWORD is its password")
	cmd.Flags().StringVar(&hint, "base-hint", "", "an `image` in the registry that is like this one: what it has is not sent again")
	cmd.Flags().BoolVar(&o.Verify, "verify", false, "ask the registry for each blob, and send again what it has lost")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the digest")
	r.add(cmd.Flags())
	return cmd
}

// baseHint parses --base-hint of a push to a reference; "" is none.
func baseHint(hint string, to ref.Reference) (ref.Reference, error) {
	if hint == "" {
		return ref.Reference{}, nil
	}
	base, err := ref.Parse(hint)
	if err != nil {
		return base, usageError{fmt.Errorf("--base-hint: %w", err)}
	}
	if base.Registry != to.Registry {
		return base, usagef("--base-hint %s: it is in another registry than %s", hint, to)
	}
	return base, nil
}

// sendImage sends an image to a reference, signed with key unless that is nil, and
// prints its digest.
func (a *app) sendImage(ctx context.Context, s *store.Store, c *remote.Client, name string, to ref.Reference, o transfer.PushOptions, key *sign.Signer, quiet bool) error {
	p := a.newProgress(quiet)
	o.Progress = p.transfer
	sent, err := transfer.Push(ctx, s, c, name, to, o)
	p.Close()
	if err != nil {
		return notFound(err)
	}
	if key != nil {
		if err := transfer.Sign(ctx, s, c, key, sent, to); err != nil {
			return err
		}
	}
	if quiet {
		printLine(a.Out, sent.Digest)
		return nil
	}
	printf(a.Out, "%s@%s\n", to, sent.Digest)
	return nil
}
