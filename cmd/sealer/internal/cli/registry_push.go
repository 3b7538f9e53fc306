package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) registryPush() *cobra.Command {
	var r registryFlags
	var only platformFlag
	var to string
	cmd := &cobra.Command{
		Use:   "push IMAGE --to HOST[/PREFIX]",
		Short: "Copy the mirrored images of a ClusterImage to a registry",
		Long: `Copy the container images inside a ClusterImage, their manifests and tags, to an
existing registry, where each gets the name that it has in the private registry,
below PREFIX. Only what the registry lacks is sent.

An image that was mirrored for some of its platforms has an index that lists
others, too. Where the registry takes no such index, the tag gets an index of the
platforms that are there, whose digest is another; this is printed, and the exit
code is 3. A reference by digest alone cannot be had then, and fails.`,
		Example:           `  sealer registry push my-app:v1 --to harbor.example.com/cluster`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := mirror.ParsePrefix(to)
			if err != nil {
				return usageError{err}
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				return a.pushMirrored(cmd.Context(), s, c, args[0], only.Platform, target, a.Out)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the registry, and a path in it: `HOST[:PORT][/PREFIX]`")
	cmd.Flags().Var(&only, "platform", "the images for this platform only (default: all that the ClusterImage has)")
	_ = cmd.MarkFlagRequired("to") // fails only for an unknown flag
	r.add(cmd.Flags())
	return cmd
}

// pushMirrored copies the container images inside an image to a registry and
// prints each to out.
func (a *app) pushMirrored(ctx context.Context, s *store.Store, c *remote.Client, name string, p *ocispec.Platform, to mirror.Prefix, out io.Writer) error {
	bar := a.newProgress(false)
	pushed, lacking, err := transfer.PushMirrored(ctx, s, c, name, p, to, transfer.PushOptions{Progress: bar.transfer})
	bar.Close()
	reduced, attached := 0, 0
	for _, im := range pushed {
		if tree.IsAttachmentTag(im.Reference.Tag) {
			attached++
			continue
		}
		printf(out, "%s  %s\n", im.Reference, im.Digest)
		if im.Reduced {
			reduced++
			printf(a.Err, "warning: %s: the registry takes no index whose platforms it has not all; it got one of those inside, with another digest\n", im.Reference)
		}
	}
	if attached > 0 {
		printf(a.Err, "and %s: signatures, attestations and other artifacts of these images\n", counted(attached, "attachment", "attachments"))
	}
	for _, r := range lacking {
		printf(a.Err, "not pushed: %s: %s lists it and does not hold it\n", r.Familiar(), name)
	}
	if err == nil && len(lacking) > 0 {
		err = advise(incompleteError{fmt.Errorf("registry push %s: %s", name, counted(len(lacking), "image is not inside", "images are not inside"))},
			"Copy them to the registry by themselves, or build the image again")
	}
	if err == nil && reduced > 0 {
		err = advise(incompleteError{fmt.Errorf("registry push %s: %s", name, counted(reduced, "image has another digest there", "images have another digest there"))},
			"Build the image with --all-platforms, or push to a registry that takes sparse indexes; a pod that pins the digest does not start until then")
	}
	if err == nil && len(pushed) == 0 {
		printf(a.Err, "%s holds no container image\n", name)
	}
	if errors.Is(err, remote.ErrSparse) {
		return advise(err, "Build the image with --all-platforms, or push to a registry that takes sparse indexes")
	}
	return notFound(err)
}
