package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/containerd"
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
	node := nodeFlags{namespace: containerd.DefaultNamespace}
	cmd := &cobra.Command{
		Use:   "push IMAGE --to HOST[/PREFIX] | --containerd[=SOCKET]",
		Short: "Copy the mirrored images of a ClusterImage to a registry, or into a node's containerd",
		Long: `Copy the container images inside a ClusterImage, their manifests and tags, to an
existing registry, where each gets the name that it has in the private registry,
below PREFIX. Only what the registry lacks is sent.

An image that was mirrored for some of its platforms has an index that lists
others, too. Where the registry takes no such index, the tag gets an index of the
platforms that are there, whose digest is another; this is printed, and the exit
code is 3. A reference by digest alone cannot be had then, and fails.

With --containerd the images of one platform go straight into the containerd of this
node, under the names that pods ask for: no registry is needed, and no redirect. Only
what containerd lacks is sent, and an image has its names when all of it is there. The
node unpacks an image when a container first needs it; signatures and attestations
stay behind. It needs the rights on the socket: usually root's.`,
		Example: `  sealer registry push my-app:v1 --to harbor.example.com/cluster
  sealer registry push my-app:v1 --containerd
  sealer registry push my-app:v1 --containerd=/run/k3s/containerd/containerd.sock`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			image, err := node.target(cmd, args)
			if err != nil {
				return err
			}
			if node.socket != "" {
				return a.withStore(func(s *store.Store) error { return a.pushNode(cmd.Context(), s, &node, image, only.Platform) })
			}
			target, err := mirror.ParsePrefix(to)
			if err != nil {
				return usageError{err}
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				return a.pushMirrored(cmd.Context(), s, c, image, only.Platform, target, a.Out)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the registry, and a path in it: `HOST[:PORT][/PREFIX]`")
	node.add(cmd.Flags())
	cmd.Flags().Var(&only, "platform", "the images for this platform only (default: all that the ClusterImage has; for containerd this machine's)")
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
