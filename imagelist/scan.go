package imagelist

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// DefaultKubeVersion is the Kubernetes version that charts are rendered for
// when nothing else says one.
const DefaultKubeVersion = "v1.33.1"

// The values of Options.Mode.
const (
	ModeAuto   = "auto"   // lists, charts, manifests, and Kubernetes objects in any other file
	ModeSealer = "sealer" // lists, charts and manifests in their directories
	ModeOff    = "off"    // only the lists that Options names
)

// A List is a file that the user names: an image list, an ignore list.
type List struct {
	Name    string // as the user knows it; errors begin with it
	Content []byte
}

// Options steer Scan. The zero value reads a rootfs the way a
// build does.
type Options struct {
	// KubeVersion is the cluster's version; "" means that of the rootfs's
	// Metadata file, else DefaultKubeVersion.
	KubeVersion string
	// KubeRange is a semver range (KUBEVERSION in a Kubefile) that the version
	// must lie in; where KubeVersion is outside, one inside is taken.
	KubeRange string
	// APIVersions are API groups and kinds that the cluster has beside the
	// built-in ones, as "group/version" or "group/version/Kind". The CRDs that
	// the scan finds are added.
	APIVersions []string
	// Values are overlays for charts: chart name to the content of a values
	// file. They come after those that lie beside the chart.
	Values map[string][]byte
	// Set are "NAME.key=value" settings in Helm's --set syntax, NAME being the
	// chart's name.
	Set []string
	// Lists are image lists, AuthLists are image lists with authentication,
	// Ignored are lists of references that are left out.
	Lists, AuthLists, Ignored []List
	// Commands start the cluster and its applications. A chart that they
	// install is rendered with the values, the name and the namespace that they
	// give.
	Commands []Command
	// Variables are those that the image gives to its commands and programs.
	Variables []Variable
	// Rootfs is where the commands find files: the files that Scan reads over
	// those of the image below. nil means the files that Scan reads.
	Rootfs fs.FS `json:"-"`
	// ControlPlane says that the image below has the images of a control plane.
	ControlPlane bool
	// Kubeadm is asked for the images of a control plane; nil means that nobody
	// can be asked.
	Kubeadm Kubeadm `json:"-"`
	// Charts brings charts from elsewhere: dependencies that a chart declares and
	// does not carry, and charts that objects name; nil means that nothing is
	// fetched.
	Charts Charts `json:"-"`
	// Rules is the content of .sealerimages, nil for none.
	Rules []byte
	// Under is the directory of a rootfs that fsys stands for, when it is not
	// the whole: "manifests" reads every file as a manifest.
	Under string
	// Paths are the files and directories of fsys that are read; empty means
	// all.
	Paths []string
	// Objects, if set, limits the files that are read outside manifests/ and
	// charts/. Names that are not there are ignored.
	Objects map[string]bool `json:"-"` // derived from the files: not in the cache key
	// Mode is ModeAuto ("" too), ModeSealer or ModeOff.
	Mode string
	// PrivateRegistry is host[:port]; "" means ref.DefaultPrivate.
	PrivateRegistry string
	// Lenient makes open gaps of the errors that come from charts and
	// manifests. Errors in lists and rules stay errors.
	Lenient bool
	// Strict makes every doubtful gap an open one.
	Strict bool
	// Base are the gaps of the image that the files are put on. They are gaps
	// of the result, and Rules may declare them.
	Base []Gap
	// ChartProbe renders charts again with the switches on that are off by
	// default; images that appear then are optional.
	ChartProbe bool
	// Logger gets a line for each file, at debug level; nil discards.
	Logger *slog.Logger
}

// Scan finds the images that the files of fsys, the rootfs that was added,
// make a cluster pull. Symbolic links are followed as fsys does it: it must
// not lead out of itself (os.Root's does not).
//
// The error joins one error for each fault, each of the form
// `file:line: "text": why`, sorted by file. The result holds the findings
// of the other files also when there is an error; it is nil only when ctx is done, or
// the templates of a chart take memory without end.
// Scan is safe for concurrent use when fsys is.
func Scan(ctx context.Context, fsys fs.FS, o Options) (*Result, error) {
	s := newScanner(ctx, o)
	s.fsys = fsys
	s.clusterVersion = cmp.Or(o.KubeVersion, MetadataVersion(fsys))
	s.o.KubeVersion = cmp.Or(s.clusterVersion, DefaultKubeVersion)
	s.o.PrivateRegistry = cmp.Or(o.PrivateRegistry, ref.DefaultPrivate)
	s.res.PrivateRegistry = s.o.PrivateRegistry
	s.rules = s.parseRules(o.Rules)
	s.dirs = above(o.Objects)
	s.readLists()
	if o.Mode != ModeOff {
		if err := s.readFiles(); err != nil {
			return nil, err
		}
	}
	if err := s.follow(); err != nil {
		return nil, err
	}
	if o.Mode != ModeOff {
		s.unknownCharts()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.kubeadm()
	s.kustomize()
	s.placeholders()
	s.fillIn()
	s.dropPartial()
	s.addFamilies()
	s.ownSettings()
	s.tellAwaited()
	s.imageVariables()
	s.applyRules()
	s.mentions()
	s.lowGaps()
	s.tagGaps()
	s.res.Gaps = append(s.res.Gaps, o.Base...)
	s.declareGaps()
	s.res.sort()
	return s.res, s.err()
}

func newScanner(ctx context.Context, o Options) *scanner {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &scanner{ctx: ctx, o: o, log: log, res: &Result{}, apis: map[string]bool{}, kinds: map[string]bool{}, partFiles: map[string]bool{}}
}

// A scanner is one run of Scan.
type scanner struct {
	ctx     context.Context
	fsys    fs.FS
	o       Options
	log     *slog.Logger
	res     *Result
	rules   userRules
	dirs    map[string]bool // that have Objects below them, when only those are looked for
	applied map[string]bool // files and directories that start commands apply, outside of those for manifests
	apis    map[string]bool // the APIs of the CRDs found
	kinds   map[string]bool // group/Kind of the objects found
	faults  []fault

	partial      map[string]bool // variables that are parts of references, by DIRECTORY/NAME
	partFiles    map[string]bool // whose lines a script puts a registry before
	installs     []install       // that are not followed yet
	laterSources []install       // sources of Flux, which say what others install
	fluxSources  map[string]*yaml.Node

	kubeadmConfigs []kubeadmConfig
	kubeadmParts   []kubeadmConfig // other configurations that kubeadm takes, and its own commands
	clusterVersion string          // of Kubernetes, as the options or the rootfs say; "" when neither does
	kustomizations []*kustomization
	release        release // that the chart is rendered for
	objects        int     // rendered
	builtin        int     // of them, those of kinds that Kubernetes brings

	variables      map[string]map[string]string // of files of settings, by directory
	variableCount  int
	substitutes    []pair            // of Flux
	substituteFrom []string          // ConfigMaps and Secrets that hold more
	configs        map[string]config // ConfigMaps and Secrets, by sourceKey
	mentioned      []mention
	awaiting       []awaited
	rendered       map[string]int    // how often each chart was, by its directory
	installed      map[string]bool   // directories of charts that objects of the files install
	usedValues     map[string]bool   // values files that charts were rendered with
	helmRepos      map[string]string // repositories of charts: name to URL

	gapLines   []int         // of the template that is looked at, in its rendering
	buf        []byte        // of hasObject
	renderTime time.Duration // for one chart; 0 is maxRenderTime
	renderHeap uint64        // bytes, for one chart; 0 is maxRenderHeap
	leftBehind int           // renderings that did not stop
	endless    error         // that of one that takes memory, which ends the scan
	keptCharts int           // bytes; 0 is maxKeptCharts
}

const authListName = "imageListWithAuth.yaml"

// readFile reads one file that is neither a chart nor an archive.
func (s *scanner) readFile(name string) {
	switch {
	case s.isImageList(name):
		if data, ok := s.read(name, maxFile); ok {
			s.imageList(List{name, data})
		}
	case name == authListName:
		if data, ok := s.read(name, maxFile); ok {
			s.authList(List{name, data})
		}
	case path.Base(name) == authListName:
	case s.areaOf(name) == manifests && isManifest(name):
		if data, ok := s.read(name, maxFile); ok {
			s.manifest(name, data)
		}
	case s.areaOf(name) == manifests && !prose[strings.ToLower(path.Ext(name))]:
		s.foreignText(name)
	default:
		s.otherFile(name)
	}
}

var imageField = regexp.MustCompile(`(?m)^[ \t-]*["']?image["']?[ \t]*:`)

// manifest reads a file of manifests/ or application/apps/.
func (s *scanner) manifest(name string, data []byte) {
	s.mentionsOf(name, data, false)
	docs, faults := documents(data)
	_, template := formatOf(name)
	templated := bytes.Contains(data, []byte("{{")) || bytes.Contains(data, []byte("{%")) || template && bytes.Contains(data, []byte("%{"))
	if templated && (len(faults) > 0 || template || path.Ext(name) == ".tmpl") {
		data = blankActions(data)
		docs, faults = documents(data)
	}
	for _, f := range faults {
		if templated {
			s.addGap(templateGap, Gap{File: name, Line: f.line, Reason: templateGap.reason + ": " + f.err.Error()})
			continue
		}
		s.fault(fault{file: name, line: f.line, text: f.text, err: f.err})
	}
	if len(docs) == 1 && isScalar(docs[0].node) {
		s.plainList(place{file: name, limit: Medium, foreign: true}, data) // a list with the name of another format
		return
	}
	before := s.seen()
	for _, d := range docs {
		s.document(place{file: name, base: d.line}, d)
	}
	if templated && len(faults) > 0 {
		s.lines(place{file: name, limit: Medium}, string(data))
	}
	s.commentedDefaults(name, data)
	if before == s.seen() && bytes.Contains(data, []byte("image")) && imageField.Match(data) && !onlyCRDs(docs) {
		s.addGap(noImageGap, Gap{File: name})
	}
}

// seen counts everything that the scan had to say so far.
func (s *scanner) seen() int {
	return len(s.res.Found) + len(s.res.Rejected) + len(s.res.Gaps) + len(s.faults)
}

var (
	noImageGap = cause{Doubtful, "no-image", "has image: fields, but no image was found in it",
		"name the field in " + RulesFile + " (field KIND PATH), " + declare}
	templateGap = cause{Doubtful, "template", "a template that is no YAML without its values; only its lines were read",
		"add its images to manifests/imageList, " + declare}
	unreadGap = cause{Doubtful, "unread", "", "make it readable, or take it out of the rootfs, " + declare}
)

// onlyCRDs reports whether all documents are definitions, whose image: keys
// are schema.
func onlyCRDs(docs []document) bool {
	for _, d := range docs {
		if text(d.node, "kind") != "CustomResourceDefinition" {
			return false
		}
	}
	return true
}

// otherFile looks for Kubernetes objects in a file outside the directories
// that are made for them; whatever else it holds is no fault.
func (s *scanner) otherFile(name string) {
	if s.o.Objects != nil && !s.o.Objects[name] {
		return
	}
	info, err := fs.Stat(s.fsys, name)
	if err != nil || info.Size() > maxOther || info.Size() == 0 {
		return // a link may lead nowhere
	}
	kustomization, node, unit := kustomizationFile(name), nodeFile(name), isUnit(name)
	if !kustomization && !node && !unit && s.o.Objects == nil && !s.mayHavePods(name) {
		return
	}
	data, err := readLimited(s.fsys, name, maxOther)
	if err != nil {
		s.addGap(unreadGap, Gap{File: name, Reason: "not looked at: " + err.Error()})
		return
	}
	s.res.Files++
	if unit {
		s.unitFile(name, data)
	}
	if node {
		s.node(name, data)
	}
	docs := objects(data)
	if kustomization { // it may lack kind and version
		docs, _ = documents(blankActions(data))
	}
	for _, d := range docs {
		s.document(place{file: name, base: d.line, podSpecsOnly: true, limit: High}, d)
	}
}
