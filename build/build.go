package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
	"github.com/clusterimage/sealer/registry/chart"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// Build builds the image that o describes and commits it to s under o.Tags. It
// asks registries through c. After an error nothing of the image is visible and
// no temporary file is left; mirrored blobs stay, unnamed, so that the next
// build goes on from there. The error wraps ErrIncomplete when images are
// missing, and faults of the Kubefile are *kubefile.Error; Faults divides it.
// The Result is never nil.
func Build(ctx context.Context, s *store.Store, c *remote.Client, o Options) (_ *Result, err error) {
	b, err := newBuilder(s, c, o)
	if err != nil {
		return &Result{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	defer b.saveStats()
	// From here on no prune, of any process, removes the layers and blobs of
	// this build.
	if err := s.Hold(ctx); err != nil {
		return b.result, err
	}
	builds, err := b.plan(ctx)
	if err != nil {
		return b.result, err
	}
	b.readShared(ctx)
	for _, pb := range builds {
		if err := pb.assemble(ctx); err != nil {
			return b.result, err
		}
	}
	if err := b.mirror(ctx, builds); err != nil || o.DryRun {
		return b.result, err
	}
	if err := b.commit(ctx, builds); err != nil {
		return b.result, err
	}
	return b.result, b.writeShared(ctx)
}

// Check reports all faults of the Kubefile and the build context at once. It
// writes nothing and asks no registry: FROM is looked for in the store alone.
// Parts that depend on a missing base are not judged. A build gives the same
// warnings.
func Check(ctx context.Context, s *store.Store, o Options) (warnings []string, err error) {
	o.Offline = true
	b, err := newBuilder(s, nil, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.checking = true
	_, err = b.plan(ctx)
	return b.result.Warnings, err
}

// A builder is one run of Build.
type builder struct {
	s     *store.Store
	c     *remote.Client
	o     Options
	ctx   *buildContext
	file  *kubefile.File
	text  error // the faults of the Kubefile's text; file has the rest of it
	stats *statCache
	when  time.Time // of all files in layers
	log   *slog.Logger

	locked    imagelist.Lock
	locksFrom bool                     // locked has the images of FROM
	bases     map[string]digest.Digest // of FROM
	checking  bool                     // Check: nothing is fetched
	failing   bool                     // a fault is known: nothing more is fetched
	pulled    map[ref.Reference]bool
	closers   []func() error // in reverse order
	fetched   map[string]fetched
	brought   map[chart.Source]*chart.Fetched // brought by this build
	fetcher   *chart.Fetcher
	shared    []*sharedCache
	temp      string // directory of fetched sources

	attachments *mirror.Attachments // nil leaves them out
	ledger      mirror.Ledger       // of all platforms

	mu     sync.Mutex            // guards the fields below, and result.Warnings
	used   map[string]stepRecord // steps of this build by their keys
	warned map[string]bool
	result *Result
}

func newBuilder(s *store.Store, c *remote.Client, o Options) (*builder, error) {
	b := &builder{s: s, c: c, o: o, log: o.Logger, pulled: map[ref.Reference]bool{}, bases: map[string]digest.Digest{}, brought: map[chart.Source]*chart.Fetched{}, fetched: map[string]fetched{}, warned: map[string]bool{}, result: &Result{}}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.when = time.Unix(0, 0).UTC()
	if o.SourceDateEpoch != nil {
		b.when = o.SourceDateEpoch.UTC()
		b.o.SourceDateEpoch = &b.when
	}
	if len(o.Platforms) == 0 {
		b.o.Platforms = []ocispec.Platform{platform.Default()}
	}
	if b.o.Context == "" {
		b.o.Context = "."
	}
	var err error
	if b.ctx, err = openContext(b.o.Context); err != nil {
		return nil, err
	}
	b.stats = openStatCache(s.CacheDir(), b.o.Context)
	if fi, err := os.Stat(b.lockFile()); err == nil {
		b.ctx.lock = statOf(fi)
	}
	b.file, b.text = b.readKubefile()
	b.failing = b.text != nil
	if err = b.text; b.file != nil {
		err = b.readLock()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// saveStats keeps the hashes of the context's files, after a failed build too.
// A cache that cannot be written is no fault.
func (b *builder) saveStats() {
	if err := b.stats.save(); err != nil {
		b.log.Debug("write the stat cache", "error", err)
	}
}

func (b *builder) close() error {
	errs := []error{b.ctx.Close()}
	for _, f := range slices.Backward(b.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

func (b *builder) readKubefile() (*kubefile.File, error) {
	name := b.o.Kubefile
	if b.o.KubefileReader != nil {
		return parser.Parse(cmp.Or(name, kubefile.DefaultName), b.o.KubefileReader)
	}
	path := name
	if path == "" {
		name, path = kubefile.DefaultName, filepath.Join(b.o.Context, kubefile.DefaultName)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read Kubefile: %s does not exist: %w", path, errNoKubefile)
	}
	if err != nil {
		return nil, fmt.Errorf("read Kubefile: %w", err)
	}
	defer f.Close()
	return parser.Parse(name, f)
}

// errNoKubefile is the way out for a user without a Kubefile.
var errNoKubefile = errors.New("name it with -f FILE, or run sealer init")

// withBase tells whether the layers of FROM belong to the image.
func (b *builder) withBase() bool { return b.o.Base == nil || *b.o.Base }

func (b *builder) event(e Event) {
	if b.o.Progress != nil {
		b.o.Progress(e)
	}
}

func (b *builder) step(text string) { b.event(Event{Step: text}) }

func (b *builder) transfer(e remote.Event) { b.event(Event{Transfer: &e}) }

// warn adds a warning, once.
func (b *builder) warn(text string) {
	b.mu.Lock()
	seen := b.warned[text]
	b.warned[text] = true
	if !seen {
		b.result.Warnings = append(b.result.Warnings, text)
	}
	b.mu.Unlock()
	if !seen {
		b.event(Event{Warning: text})
	}
}

// commit writes the manifests, and the index where there are several, and makes
// the image visible.
func (b *builder) commit(ctx context.Context, builds []*platformBuild) error {
	var manifests []ocispec.Descriptor
	for i, pb := range builds {
		b.countLayers(platform.String(pb.platform), pb.layers)
		desc, err := b.s.WriteImage(ctx, pb.config, pb.layers, pb.annotations())
		if err != nil {
			return err
		}
		p := pb.platform
		desc.Platform = &p
		manifests = append(manifests, desc)
		b.result.Images[i].Descriptor, b.result.Images[i].Config = desc, pb.config
	}
	desc, err := b.s.WriteTop(ctx, manifests, b.o.Annotations)
	if err != nil {
		return err
	}
	if err := b.s.CommitBuilt(ctx, b.o.Tags, desc); err != nil {
		return err
	}
	b.result.Descriptor = desc
	return nil
}

// annotations returns the manifest's annotations: the user's, and the ones by
// which tools of sealer 0.9 recognise a ClusterImage.
func (pb *platformBuild) annotations() map[string]string {
	out := map[string]string{}
	maps.Copy(out, pb.b.o.Annotations)
	maps.Copy(out, pb.config.Annotations())
	return out
}
