package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

// verification is what verify prints.
type verification struct {
	Image      string   `json:"image"`
	Blobs      int      `json:"blobs"`
	Layers     int      `json:"layers"`
	Bytes      int64    `json:"bytes"`
	References int      `json:"references"`
	Repaired   []string `json:"repaired,omitempty"`
	Faults     []string `json:"faults,omitempty"`  // broken content
	Missing    []string `json:"missing,omitempty"` // references that the registry inside does not answer
}

func (a *app) verify() *cobra.Command {
	var o output
	var r registryFlags
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify IMAGE...",
		Short: "Check every byte of images, and that no container image is missing inside",
		Long: `Check every byte of images: each blob against its digest, each unpacked file
against its layer, each link of the registry inside against its layer's list.
Then completeness: each container image that was found when the image was built,
asked for as the cluster will, is there with all its layers.

--repair fetches what is broken again: container images from where they were
mirrored, all else from the registry that the image's name says.

` + exitCodesHelp,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				var all []verification
				var errs []error
				for _, name := range args {
					v, err := a.verifyOne(cmd.Context(), s, name, repair, &r)
					if err != nil {
						errs = append(errs, notFound(err))
						continue
					}
					all = append(all, v)
					if n := len(v.Faults) + len(v.Missing); n > 0 {
						errs = append(errs, incompleteError{fmt.Errorf("verify %s: %d faults", name, n)})
					}
				}
				print := func(w io.Writer) error { return printVerified(w, all) }
				err := errors.Join(errs...)
				if errors.Is(err, errIncomplete) && !repair {
					err = advise(err, "Fetch what is broken again with: sealer verify --repair IMAGE")
				}
				return errors.Join(o.print(a.Out, all, print, anys(all)...), err)
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "fetch again what is broken")
	r.add(cmd.Flags())
	o.flags(cmd, "text")
	return cmd
}

func (a *app) verifyOne(ctx context.Context, s *store.Store, name string, repair bool, r *registryFlags) (verification, error) {
	v := verification{Image: name}
	var o store.VerifyOptions
	if repair {
		c, err := a.client(r)
		if err != nil {
			return v, err
		}
		o.Repair = newRepairer(ctx, s, c, name).fetch
	}
	got, err := s.Verify(ctx, name, o)
	if err != nil {
		return v, err
	}
	v.Blobs, v.Layers, v.Bytes = got.Blobs, got.Layers, got.Bytes
	for _, f := range got.Faults {
		if text := fmt.Sprintf("%s: %v", f.What, f.Err); f.Repaired {
			v.Repaired = append(v.Repaired, text)
		} else {
			v.Faults = append(v.Faults, text)
		}
	}
	if len(v.Faults) > 0 {
		return v, nil // what is broken cannot be complete
	}
	return v, complete(ctx, s, name, &v)
}

// complete checks each platform of an image for completeness.
func complete(ctx context.Context, s *store.Store, name string, v *verification) error {
	platforms, err := platformsOf(ctx, s, name, nil)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		im, err := s.Image(ctx, name, &p)
		if err != nil {
			return err
		}
		var dirs []string
		for _, id := range im.LayerIDs() {
			dirs = append(dirs, s.LayerDir(id))
		}
		references := mirroredReferences(im)
		missing, err := registry.Verify(ctx, dirs, references, registry.VerifyOptions{
			Naming: im.Config.Registry.Naming, Private: im.Config.Registry.Name, Platforms: []ocispec.Platform{p},
		})
		if err != nil {
			return err
		}
		v.References += len(references)
		for _, m := range im.Config.Images {
			if m.Lacks() {
				v.Missing = append(v.Missing, fmt.Sprintf("%s: %s: %s", platform.String(p), m.Reference, m.Missing))
			}
		}
		for _, m := range missing {
			v.Missing = append(v.Missing, fmt.Sprintf("%s: %v", platform.String(p), m))
		}
	}
	return nil
}

func printVerified(w io.Writer, all []verification) error {
	for _, v := range all {
		for _, l := range []struct {
			word string
			list []string
		}{{"repaired", v.Repaired}, {"broken", v.Faults}, {"missing", v.Missing}} {
			for _, text := range l.list {
				fmt.Fprintf(w, "%s: %s\n", l.word, text)
			}
		}
		state := "verified"
		if len(v.Faults)+len(v.Missing) > 0 {
			state = "FAULTY"
		}
		fmt.Fprintf(w, "%s: %s: %d blobs (%s), %d layers, %d container images\n", v.Image, state, v.Blobs, size(v.Bytes), v.Layers, v.References)
	}
	return nil
}
