package cli

import (
	"cmp"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// storeRoot returns the store's directory: --root, SEALER_ROOT, the default.
func (a *app) storeRoot() string {
	return cmp.Or(a.root, os.Getenv("SEALER_ROOT"), store.DefaultRoot())
}

// withStore opens the store, runs f and closes it.
func (a *app) withStore(f func(s *store.Store) error) (err error) {
	s, err := store.Open(a.storeRoot(), store.Options{Logger: a.logger(), Limits: a.limits, Command: a.running, Wait: a.wait})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(s)
}

// waitFlag registers --wait[=DURATION], which withStore gives to the store.
func (a *app) waitFlag(f *pflag.FlagSet) {
	f.DurationVar(&a.wait, "wait", 0, "wait so long for other commands that use the store; --wait alone waits until they are done (default: do not wait)")
	f.Lookup("wait").NoOptDefVal = time.Duration(math.MaxInt64).String()
}

// imageName reads the name that a user gives to a ClusterImage; a wrong one is a
// wrong usage.
func imageName(s string) (ref.Reference, error) {
	r, err := ref.Parse(s)
	if err != nil {
		return r, usagef("image name: %w", err)
	}
	if r.Digest != "" {
		return r, usagef("image name %s: a name has a tag, not a digest", s)
	}
	return r, nil
}

// completeImages completes arguments with the names in the store.
func (a *app) completeImages(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	err := a.withStore(func(s *store.Store) error {
		images, err := s.List()
		for _, im := range images {
			names = append(names, familiarAll(im.Names)...)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// familiar returns the short form of a stored name.
func familiar(name string) string {
	r, err := ref.Parse(name)
	if err != nil {
		return name
	}
	return r.Familiar()
}

// shownName is the name of im that the user asked for, in its short form; of one
// asked for by its ID the first.
func shownName(asked string, im *store.Image) string {
	if len(im.Names) == 0 {
		return asked
	}
	if r, err := imageName(asked); err == nil && slices.Contains(im.Names, r.String()) {
		return familiar(r.String())
	}
	return familiar(im.Names[0])
}

func familiarAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = familiar(n)
	}
	return out
}

// similarImage returns the name that the user may mean: another tag of the same
// repository, a similar name, or one whose repository is similar.
func similarImage(e *store.UnknownError) string {
	known := familiarAll(e.Known)
	asked := e.Name
	if r, err := ref.Parse(e.Name); err == nil {
		asked = r.Familiar()
		for i, name := range e.Known {
			if k, err := ref.Parse(name); err == nil && k.Name() == r.Name() {
				return known[i]
			}
		}
	}
	if like := kubefile.Suggest(asked, known); like != "" {
		return like
	}
	repositories := make([]string, len(known))
	for i, name := range known {
		repositories[i] = untagged(name)
	}
	if like := kubefile.Suggest(untagged(asked), repositories); like != "" {
		return known[slices.Index(repositories, like)]
	}
	return ""
}

// untagged cuts the tag off a name.
func untagged(name string) string {
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}

// notFound adds advice to an error about a missing image.
func notFound(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return advise(err, "See what is broken with: sealer verify IMAGE; fetch it again with: sealer verify --repair IMAGE")
	}
	if errors.Is(err, image.ErrForeign) {
		return advise(err, "Drop it with: sealer rmi IMAGE")
	}
	var unknown *store.UnknownError
	if errors.As(err, &unknown) {
		if like := similarImage(unknown); like != "" {
			return advise(err, "Did you mean "+like+"? See what there is with: sealer images")
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return advise(err, "See what there is with: sealer images")
	}
	return err
}
