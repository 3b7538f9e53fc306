package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

func (a *app) pull() *cobra.Command {
	var r registryFlags
	var platforms string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "pull NAME...",
		Short: "Bring images from a registry into the store",
		Long: `Bring images from a registry into the store. What the store has is not asked for
again. Of an image for several platforms all come, or those of --platform.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := platform.ParseList(platforms)
			if err != nil {
				return usageError{err}
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				var errs []error
				for _, name := range args {
					d, err := a.pullOne(cmd.Context(), s, c, name, want, quiet)
					if err != nil {
						errs = append(errs, err)
						continue
					}
					if quiet {
						fmt.Fprintln(a.Out, d)
						continue
					}
					fmt.Fprintf(a.Out, "%s  %s\n", name, d)
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().StringVar(&platforms, "platform", "", "bring only these platforms, separated by commas (default all)")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the digest")
	r.add(cmd.Flags())
	return cmd
}

func (a *app) pullOne(ctx context.Context, s *store.Store, c *remote.Client, name string, platforms []ocispec.Platform, quiet bool) (digest.Digest, error) {
	from, err := ref.Parse(name)
	if err != nil {
		return "", err
	}
	p := a.newProgress(quiet)
	desc, err := c.Pull(ctx, s, from, remote.PullOptions{Platforms: platforms, Progress: p.transfer})
	p.Close()
	if err != nil {
		return "", err
	}
	names := []ref.Reference{from}
	if from.Tag == "" {
		names = nil // asked for by digest: the image is found by its ID
	}
	for i := range names {
		names[i].Digest = ""
	}
	if err := s.Commit(ctx, names, desc); err != nil {
		return "", fmt.Errorf("pull %s: %w", from, err)
	}
	return desc.Digest, nil
}
