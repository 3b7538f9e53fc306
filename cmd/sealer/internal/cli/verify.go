package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// verification is the output of verify.
type verification struct {
	Image      string     `json:"image"`
	Blobs      int        `json:"blobs"`
	Layers     int        `json:"layers"`
	Bytes      int64      `json:"bytes"`
	References int        `json:"references"`
	Repaired   []string   `json:"repaired,omitempty"`
	Faults     []string   `json:"faults,omitempty"`   // broken content
	Missing    []string   `json:"missing,omitempty"`  // references that the registry layers do not answer
	Unsigned   string     `json:"unsigned,omitempty"` // why no signature of --verify-key is there
	Gaps       []imageGap `json:"gaps,omitempty"`     // images that the build could not know
}

func (a *app) verify() *cobra.Command {
	var o output
	var r registryFlags
	var repair, everything bool
	var signedBy keyFlag
	cmd := &cobra.Command{
		Use:   "verify IMAGE... | --all",
		Short: "Check every byte of images, and that no container image is missing inside",
		Long: `Check every byte of images: each blob against its digest, each unpacked file
against its layer, each link of the registry inside against its layer's list.
Then completeness: each container image that was found when the image was built,
asked for as the cluster will, is there with all its layers. A gap is a place
whose images the build could not know; an open one that the author of the image
did not declare makes it incomplete.

--repair fetches what is broken again: container images from where they were
mirrored, all else from the registry that the image's name says.

` + exitCodesHelp,
		Example: `  sealer verify my-app:v1
  sealer verify --all --repair   # fetch again what is damaged`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case everything && len(args) > 0:
				return usagef("verify --all takes no images: it checks every image of the store")
			case everything:
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			key, err := signedBy.key()
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				if everything {
					if args, err = allImages(s); err != nil {
						return err
					}
				}
				all, err := a.verifyAll(cmd.Context(), s, args, key, repair, &r)
				if !repair {
					err = adviseRepair(err, all)
				}
				print := func(w io.Writer) error { return printVerified(w, all) }
				return errors.Join(o.print(a.Out, all, print, anys(all)...), err)
			})
		},
	}
	fs := cmd.Flags()
	signedBy.flag(fs, "an image is in order")
	fs.BoolVar(&repair, "repair", false, "fetch again what is broken")
	fs.BoolVar(&everything, "all", false, "check every image of the store; content that images share is read once")
	a.limitFlags(fs)
	r.add(fs)
	o.flags(cmd, "text")
	return cmd
}

// adviseRepair adds the command that mends images to err, where one of them has
// something that a registry may still have.
func adviseRepair(err error, all []verification) error {
	if errors.Is(err, errIncomplete) && slices.ContainsFunc(all, func(v verification) bool { return len(v.Faults)+len(v.Missing) > 0 }) {
		return advise(err, "Fetch what is broken again with: sealer verify --repair IMAGE")
	}
	return err
}

// allImages returns a name of each image in the store, or its ID.
func allImages(s *store.Store) ([]string, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range list {
		name := l.Descriptor.Digest.Encoded()
		if len(l.Names) > 0 {
			name = familiar(l.Names[0])
		}
		out = append(out, name)
	}
	return out, nil
}

// verifyAll checks images, and that key, unless it is nil, has signed them. The error
// joins those of all images; content that they share is read once.
func (a *app) verifyAll(ctx context.Context, s *store.Store, names []string, key *sign.Verifier, repair bool, r *registryFlags) ([]verification, error) {
	all := []verification{}
	var errs []error
	var shared store.Shared
	for _, name := range names {
		v, err := a.verifyOne(ctx, s, name, transfer.VerifyOptions{Shared: &shared}, repair, r)
		if err != nil {
			errs = append(errs, notFound(err))
			continue
		}
		if key != nil {
			if err := transfer.CheckKept(s, key, name); err != nil {
				v.Unsigned = err.Error()
				errs = append(errs, advise(incompleteError{fmt.Errorf("verify %w", err)}, "A pull, and a load of an archive, bring the signatures that the image has there"))
			}
		}
		all = append(all, v)
		if n := len(v.Faults) + len(v.Missing); n > 0 {
			errs = append(errs, incompleteError{fmt.Errorf("verify %s: %s", name, counted(n, "fault", "faults"))})
		}
		if n := openIn(v.Gaps); n > 0 {
			errs = append(errs, incompleteError{fmt.Errorf("verify %s: %s open: images are missing that the build did not know", name, counted(n, "gap is", "gaps are"))})
		}
	}
	return all, errors.Join(errs...)
}

func (a *app) verifyOne(ctx context.Context, s *store.Store, name string, o transfer.VerifyOptions, repair bool, r *registryFlags) (verification, error) {
	v := verification{Image: name}
	if repair {
		c, err := a.client(r)
		if err != nil {
			return v, err
		}
		o.Repair = c
	}
	got, err := transfer.Verify(ctx, s, name, o)
	if err != nil {
		return v, err
	}
	v.Blobs, v.Layers, v.Bytes, v.References = got.Blobs, got.Layers, got.Bytes, got.References
	for _, f := range got.Faults {
		if text := fmt.Sprintf("%s: %v", f.What, f.Err); f.Repaired {
			v.Repaired = append(v.Repaired, text)
		} else {
			v.Faults = append(v.Faults, text)
		}
	}
	for _, m := range got.Missing {
		v.Missing = append(v.Missing, m.Error())
	}
	v.Gaps = printedGaps(got.Gaps)
	return v, nil
}

// maxFaults is the most faults of an image that are printed for people: a damaged
// disk or a hostile image has millions. JSON has all.
const maxFaults = 20

// printFaults prints the first faults of an image, and counts the rest. The
// repaired ones come last: they need nobody.
func printFaults(w io.Writer, v verification) {
	left, more := maxFaults, 0
	var rest []string
	for _, l := range []struct {
		word string
		list []string
	}{{"broken", v.Faults}, {"missing", v.Missing}, {"repaired", v.Repaired}} {
		shown := min(left, len(l.list))
		left -= shown
		for _, text := range l.list[:shown] {
			printf(w, "%s: %s\n", l.word, text)
		}
		if n := len(l.list) - shown; n > 0 {
			more += n
			rest = append(rest, fmt.Sprintf("%d %s", n, l.word))
		}
	}
	if more > 0 {
		printf(w, "and %d more: %s: --output json has all\n", more, strings.Join(rest, ", "))
	}
}

func printVerified(w io.Writer, all []verification) error {
	for _, v := range all {
		printFaults(w, v)
		for _, g := range v.Gaps {
			printf(w, "%s\n", g)
		}
		state := "verified"
		if openIn(v.Gaps) > 0 {
			state = "INCOMPLETE"
		}
		if v.Unsigned != "" {
			state = "UNSIGNED"
		}
		if len(v.Faults)+len(v.Missing) > 0 {
			state = "FAULTY"
		}
		printf(w, "%s: %s: %s (%s), %s, %s\n", v.Image, state, counted(v.Blobs, "blob", "blobs"), size(v.Bytes), counted(v.Layers, "layer", "layers"), counted(v.References, "container image", "container images"))
	}
	return nil
}
