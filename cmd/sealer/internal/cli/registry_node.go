package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/registry/containerd"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// nodeFlags are the flags of registry push about a node's containerd.
type nodeFlags struct {
	socket    string
	namespace string
}

func (n *nodeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&n.socket, "containerd", "", "put the images into the containerd behind this `SOCKET` (without a value: "+containerd.DefaultSocket+")")
	f.Lookup("containerd").NoOptDefVal = containerd.DefaultSocket
	f.StringVar(&n.namespace, "namespace", n.namespace, "containerd's namespace; Kubernetes uses "+containerd.DefaultNamespace)
}

// namespaceName is containerd's grammar of identifiers.
var namespaceName = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

// target returns the image among args. A socket may stand beside it, after
// --containerd, where no = joins them: no image begins with a slash.
func (n *nodeFlags) target(cmd *cobra.Command, args []string) (string, error) {
	node := cmd.Flags().Changed("containerd")
	if node == cmd.Flags().Changed("to") {
		return "", usagef("registry push goes to a registry, --to HOST[/PREFIX], or into a node's containerd, --containerd[=SOCKET]: give one of them")
	}
	if len(args) == 2 {
		first, second := args[0], args[1]
		isPath := func(s string) bool { return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "unix://") }
		switch {
		case !node || isPath(first) == isPath(second):
			return "", usagef("registry push takes one image, not %q and %q", first, second)
		case isPath(first):
			first, second = second, first
		}
		n.socket = second
		args = []string{first}
	}
	if node && n.socket == "" {
		return "", usagef("--containerd \"\": want the path of a socket")
	}
	if !node && cmd.Flags().Changed("namespace") {
		return "", usagef("--namespace is containerd's: it goes with --containerd")
	}
	if node && (len(n.namespace) > 76 || !namespaceName.MatchString(n.namespace)) {
		return "", usagef("--namespace %q: want letters and digits, joined by . _ or -, at most 76", n.namespace)
	}
	return args[0], nil
}

// pushNode puts the container images inside an image into a node's containerd.
func (a *app) pushNode(ctx context.Context, s *store.Store, n *nodeFlags, name string, p *ocispec.Platform) error {
	c, err := containerd.Dial(ctx, n.socket, n.namespace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return advise(err, "Is containerd installed and running here? Another socket is given as --containerd=SOCKET")
	case errors.Is(err, fs.ErrPermission):
		return advise(err, "Run it as a user that may use the socket, usually root")
	case errors.Is(err, syscall.ECONNREFUSED):
		return advise(err, "The socket is there, and nobody listens: start containerd")
	case err != nil:
		return err
	}
	defer c.Close()
	created, err := c.EnsureNamespace(ctx)
	if err != nil {
		return fmt.Errorf("registry push %s: %w", name, err)
	}
	if created && n.namespace != containerd.DefaultNamespace {
		printf(a.Err, "the namespace %s is new: Kubernetes uses %s\n", n.namespace, containerd.DefaultNamespace)
	}
	bar := a.newProgress(false)
	out, err := transfer.PushNode(ctx, s, c, name, p, bar.transfer)
	bar.Close()
	for _, m := range out.Images {
		printf(a.Out, "%s  %s\n", m.Reference, m.Digest)
	}
	for _, r := range out.Lacking {
		printf(a.Err, "not pushed: %s: %s lists it and does not hold it\n", r.Familiar(), name)
	}
	if err == nil || out.Blobs > 0 {
		printf(a.Err, "%s, %s new; %s sent, %s; %d there already\n", counted(len(out.Images), "image", "images"), counted(out.Names, "name", "names"),
			counted(out.Blobs, "blob", "blobs"), size(out.Bytes), out.Present)
	}
	return nodeError(err, out, name, n)
}

// nodeError says what the failure of a push into a containerd means.
func nodeError(err error, out transfer.OnNode, name string, n *nodeFlags) error {
	switch {
	case errors.Is(err, containerd.ErrDigest):
		return advise(fmt.Errorf("registry push %s: %w", name, err), "The store's copy is damaged: run sealer verify "+name+" --repair")
	case err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return advise(fmt.Errorf("registry push %s: %w", name, err), "Free space on containerd's disk and run it again: it goes on from there")
	case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled):
		return advise(fmt.Errorf("registry push %s to %s: %w", name, n.socket, err), "Run it again: what has arrived is kept for a day and not sent again")
	case err == nil && len(out.Lacking) > 0:
		return advise(incompleteError{fmt.Errorf("registry push %s: %s", name, counted(len(out.Lacking), "image is not inside", "images are not inside"))},
			"Pull them on the node by themselves, or build the image again")
	}
	return notFound(err)
}
