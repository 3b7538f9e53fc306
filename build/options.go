package build

import (
	"errors"
	"io"
	"log/slog"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/registry/tree"
)

// ErrIncomplete is wrapped by the error of a build that cannot bring every
// image that the cluster will pull.
var ErrIncomplete = errors.New("images are missing")

// incompleteError is a fault that is ErrIncomplete. Its text is the fault's.
type incompleteError struct{ error }

func (e incompleteError) Unwrap() error        { return e.error }
func (e incompleteError) Is(target error) bool { return target == ErrIncomplete }

// ErrGaps is wrapped, beside ErrIncomplete, by the error of a build whose images
// cannot all be known.
var ErrGaps = errors.New("gaps are open")

// gapError is an error that is ErrGaps; its text is the gap.
type gapError struct{ error }

func (e gapError) Is(target error) bool { return target == ErrGaps }

// The values of Options.Pull.
const (
	PullMissing = "missing" // FROM is taken from the store, else from its registry
	PullAlways  = "always"
	PullNever   = "never"
)

// The values of Options.Isolation.
const (
	IsolationHost   = "host"   // RUN sees the machine's programs, read-only
	IsolationChroot = "chroot" // RUN sees the rootfs alone, which must bring a shell
)

// Options describe a build. The zero value builds the Kubefile of the working
// directory for this machine's platform, and gives the image no name.
type Options struct {
	Context  string // directory; "" is "."
	Kubefile string // path; "" is Kubefile in Context
	// KubefileReader is where the Kubefile is read from instead, when set;
	// Kubefile then only names it in errors.
	KubefileReader io.Reader
	Tags           []ref.Reference    // names of the image
	Platforms      []ocispec.Platform // empty is platform.Default
	BuildArgs      map[string]string  // values of ARG
	Labels         map[string]string  // added to LABEL's
	Annotations    map[string]string  // of the manifest, and of the index

	Type string // store.TypeKubeInstaller or TypeAppInstaller; "" is found: app-installer with --base=false, or APP without a base
	// Base false leaves the layers of FROM out of the image: it is a part
	// that is installed on a cluster that runs. nil is true.
	Base *bool
	Pull string // PullMissing ("" too), PullAlways or PullNever

	NoCache   bool            // run and copy everything again
	CacheFrom []ref.Reference // registries' caches to read
	CacheTo   []ref.Reference // registries' caches to write

	PrivateRegistry string      // private registry; "" is ref.DefaultPrivate
	Naming          tree.Naming // of mirrored images there

	Scan         string   // discovery: auto ("" too), sealer or off
	ImageLists   []string // files: lists of images, beside manifests/imageList
	AuthLists    []string // files in the form of imageListWithAuth.yaml
	IgnoredLists []string // files: images not to mirror
	KubeVersion  string   // that charts are rendered for; "" is found
	// VerifyKey must have signed the image of FROM; nil asks for no signature.
	VerifyKey       *sign.Verifier
	IncludeOptional bool // mirror images of low confidence, too
	FetchCharts     bool // bring dependencies that charts do not carry, and charts that objects name
	ChartProbe      bool // look behind the charts' switches that are off, too
	ScanLenient     bool // faults of charts and manifests are gaps
	AllowGaps       bool // open gaps fail nothing; they are recorded
	Strict          bool // doubtful gaps are open ones

	ChartValues map[string][]byte // values files for charts, by chart name
	ChartSet    []string          // NAME.key=value for charts

	AllPlatforms bool   // mirror every platform of an image
	NoReferrers  bool   // leave out signatures, attestations and other artifacts that belong to the images
	AllowMissing bool   // an image that cannot be mirrored fails nothing
	Offline      bool   // ask no registry
	LockFile     string // imageList.lock; "" is the one in Context
	Lock         bool   // write LockFile
	Locked       bool   // mirror exactly the digests of LockFile
	DryRun       bool   // stop before the first blob; Image.Mirror lists the blobs to fetch

	MaxDownload  int64         // bytes that COPY takes from one URL; 0 is 4 GiB
	DownloadTime time.Duration // for one URL or git repository; 0 is an hour

	Secrets    map[string]Secret // for RUN --mount=type=secret, by id
	RunNetwork string            // host ("" too) or none
	Isolation  string            // of RUN: IsolationHost ("" too) or IsolationChroot

	Compression     string     // of rootfs layers, as in store.LayerOptions
	SourceDateEpoch *time.Time // times of files, and Config.Created; nil is 1970 and none
	Version         string     // of sealer, as recorded in the image

	Jobs     int          // transfers at a time; 0 is 8
	Progress func(Event)  // called concurrently; nil for none
	Logger   *slog.Logger // nil discards
	Output   io.Writer    // unused streams of RUN go here, too, when set
}

// A Secret is the source of a secret for RUN --mount=type=secret.
type Secret struct {
	File string // read when the build begins
	Env  string // name of a variable of sealer's environment, when File is ""
}

// An Event reports progress. Exactly one field is set.
type Event struct {
	Step     string        // a step begins: "[linux/amd64 2/5] COPY etc ."
	Line     string        // a line that RUN printed, with its step's prefix
	Warning  string        // the same as in Result.Warnings, as it comes up
	Transfer *remote.Event // a transfer goes on
}

// A Result is the outcome of a build.
type Result struct {
	// Descriptor is of the manifest or, for several platforms, the image
	// index. It is zero after a dry run.
	Descriptor ocispec.Descriptor
	Images     []Image // one for each platform, in their order
	Warnings   []string
}

// An Image is the image for one platform.
type Image struct {
	Platform   ocispec.Platform
	Descriptor ocispec.Descriptor // of the manifest
	Config     image.Config
	// Found is discovery's result, with images that are not mirrored.
	Found *imagelist.Result
	// Mirror lists the fetched images, or after a dry run those to fetch. It is
	// nil if there was nothing to mirror.
	Mirror *mirror.Result
}
