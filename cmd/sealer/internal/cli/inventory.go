package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// inventoryFlags are the flags of sealer inventory.
type inventoryFlags struct {
	registryFlags
	file, show   string
	repositories []string
	names        bool
}

func (a *app) inventory() *cobra.Command {
	var o inventoryFlags
	cmd := &cobra.Command{
		Use:   "inventory [-o FILE]",
		Short: "List the blobs that a store or a registry has, for sealer save --without",
		Long: `Write the list of the blobs that the store has, or a repository of a registry: their
digests and sizes, about 35 bytes a blob, and no names unless asked for. Bring the
file to the side that has the internet; sealer save --without FILE leaves out what
is listed.`,
		Example: `  sealer inventory -o site.inv                       # behind the air gap
  sealer save my-app:v2 --without site.inv -o v2.tar # on the other side
  sealer inventory --registry registry.example/team/app -o site.inv
  sealer inventory --show site.inv                   # what is written there`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.show != "" {
				if o.file != "" || len(o.repositories) > 0 {
					return usagef("--show prints an inventory and makes none: leave out -o and --registry")
				}
				return a.showInventory(o.show)
			}
			v, damage := a.takeInventory(cmd.Context(), &o)
			if v == nil {
				return damage
			}
			b, err := v.Encode()
			if err != nil {
				return err
			}
			write := func(w io.Writer) error { _, err := w.Write(b); return err }
			if o.file == "" || o.file == "-" {
				if f, ok := a.raw.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
					return usagef("will not write an inventory to the terminal: use -o FILE or a pipe; sealer inventory --show FILE prints one")
				}
				return errors.Join(write(a.raw.Out), damage)
			}
			if err := archive.WriteFile(o.file, 0o644, write); err != nil {
				return err
			}
			printf(a.Out, "%s  %d blobs of %s, %d bytes\n", o.file, len(v.Blobs), size(v.Size()), len(b))
			return damage
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "the `file` to write (default: standard output)")
	f.StringArrayVar(&o.repositories, "registry", nil, "list what this repository of a registry has, `HOST/REPO`, instead of the store; may be repeated")
	f.BoolVar(&o.names, "names", false, "add the names of the images")
	f.StringVar(&o.show, "show", "", "print the inventory in this `file`, as text")
	o.registryFlags.add(f)
	return cmd
}

// takeInventory lists the store or registries. The error beside an inventory tells
// that it is not all.
func (a *app) takeInventory(ctx context.Context, o *inventoryFlags) (v *inventory.Inventory, err error) {
	if len(o.repositories) == 0 {
		err = a.withStore(func(s *store.Store) (err error) {
			v, err = s.Inventory(ctx, o.names)
			return err
		})
		if v != nil && err != nil {
			err = incompleteError{notFound(err)}
		}
		return v, err
	}
	c, err := a.client(&o.registryFlags)
	if err != nil {
		return nil, err
	}
	v = &inventory.Inventory{}
	for _, name := range o.repositories {
		r, err := ref.Parse(name)
		if err != nil {
			return nil, usageError{err}
		}
		one, skipped, err := transfer.RegistryInventory(ctx, c, r, o.names)
		if err != nil {
			return nil, err
		}
		if skipped > 0 {
			printf(a.Err, "%s: %d tags are of a kind that sealer does not read, and are not listed\n", r.Name(), skipped)
		}
		v.Blobs = append(v.Blobs, one.Blobs...)
		v.Names = append(v.Names, one.Names...)
	}
	return v, nil
}

func (a *app) showInventory(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := inventory.Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, b := range v.Blobs {
		printf(a.Out, "%s  %d\n", b.Digest, b.Size)
	}
	for _, n := range v.Names {
		printf(a.Out, "%s  %s\n", n.Digest, n.Name)
	}
	return nil
}
