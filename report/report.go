package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
)

// A Report is the content of the page. Parts that are nil are left out. Sizes are
// bytes.
type Report struct {
	Title   string
	Made    time.Time // of the report; zero is not shown
	Version string    // of sealer
	Image   *Image
	Change  *Change
	Cluster *Cluster
}

// An Image is a ClusterImage, all platforms together.
type Image struct {
	Name          string
	Digest        digest.Digest // the target of the name
	Type          string
	Created       time.Time // zero where the image does not say
	SealerVersion string
	Maintainer    string
	Registry      image.PrivateRegistry
	Size          int64 // of all blobs, each counted once

	Platforms []Platform
	Mirrored  []Mirrored // inside
	Listed    []Mirrored // found, and left out on purpose
	Missing   []Missing  // should be inside, and is not
	Gaps      []Gap

	Registries []Source
	Shared     []Shared
	Layers     []Layer
	Commands   []Command
	Apps       []image.Application
	Attached   []Attached
	Software   Software
}

// A Platform is one platform of an image.
type Platform struct {
	Name   string // linux/amd64
	Digest digest.Digest
	Size   int64
	Images int // inside
	Layers int
}

// A Mirrored image is a container image, all platforms together.
type Mirrored struct {
	Reference string
	Source    string // where it was mirrored from, when not Reference
	Registry  string // of the place that it was mirrored from
	Digest    digest.Digest
	Platforms []string
	Size      int64 // of its blobs
	Own       int64 // of those blobs that no other container image inside has
	Found     []image.Provenance
	Why       string // of a listed one: why it is not inside

	Signatures, Attestations, SBOMs int
	Packages                        int // that its SBOMs name
}

// Missing is a container image that the cluster will ask for in vain.
type Missing struct {
	Platform  string
	Reference string
	Why       string
	Found     []image.Provenance
}

// A Gap is a place whose images the build could not know.
type Gap struct {
	Platforms []string
	image.Gap
}

// A Source is a registry that images were mirrored from.
type Source struct {
	Name   string
	Images int
	Size   int64 // of the blobs of its images, each counted once
	Own    int64 // of those that images of no other registry have
}

// Shared are blobs that the same container images have.
type Shared struct {
	Images []string // two or more
	Size   int64
}

// A Layer is a layer of one or several platforms.
type Layer struct {
	Platforms []string
	ID        digest.Digest
	Type      string
	Value     string
	Files     int64 // bytes unpacked; of a registry layer of the blobs that it adds
	Size      int64 // bytes of its blobs
	Registry  bool
}

// A Command is run when a cluster starts.
type Command struct {
	From string // "base", "image" or "launch"
	Text string
}

// An Attached artifact belongs to a container image.
type Attached struct {
	Reference string // of the image, or its repository where no reference leads to it
	Kind      string
	Type      string
	Subject   digest.Digest
	Digest    digest.Digest
}

// Software is what the SBOMs of the images say.
type Software struct {
	Images   int // with an SBOM
	Without  int // images without one
	Licenses []License
	Packages []Package
	Unread   []string // SBOMs that could not be read, and why
}

// A License with the packages that the SBOMs put under it. Name is "" for packages
// whose SBOM states none.
type License struct {
	Name     string
	Packages int
	Images   int
}

// A Package of the images' software.
type Package struct {
	Name, Version, License string
	Images                 []string
}

// A Change is the difference between two images, the first being the older.
type Change struct {
	From, To   string
	FromDigest digest.Digest
	Blobs      int   // to carry to a place that has the first
	Size       int64 // of those blobs
	Whole      int64 // size of the second image
	Images     []Difference
	Commands   []Difference
	Files      []Difference
}

// Count returns how many of the container images are "added", "removed" or
// "changed".
func (c *Change) Count(kind string) (n int) {
	for _, d := range c.Images {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// A Difference is one changed thing. Kind is "added", "removed" or "changed".
type Difference struct {
	Kind, Name, From, To string
	Size                 int64
}

// A Cluster is a cluster as its last run left it.
type Cluster struct {
	Name   string
	Images []string
	Verb   string // of the plan
	Facts  string // digest of the facts that the plan was made of
	Before int    // steps that were found done when the plan was made
	Hosts  []Host
	Steps  []Step
	Proof  *Proof
	Absent []string // records that are not there, and why that matters
}

// A Host is a machine of a cluster, with the steps of the plan on it.
type Host struct {
	Address            string
	Done, Failed, Left int
	Began, Ended       time.Time
}

// The states of a step.
const (
	StepDone   = "done"
	StepFailed = "failed"
	StepOpen   = "interrupted"
	StepLeft   = "not run"
)

// A Step is one step of a plan, with its end.
type Step struct {
	Number int
	Host   string
	Kind   string
	Risk   string
	Why    string
	Size   int64 // sent, at most
	State  string
	Began  time.Time
	Took   time.Duration
	Error  string
}

// A Proof says where the running containers came from.
type Proof struct {
	Time        time.Time
	Proven      bool
	Pods, Nodes int
	NodeImages  int // that runtimes keep, and are from inside
	Workloads   int // whose references lead to an image inside
	Containers  []Container
	Strangers   []Container
	Waiting     []Container
	Unseen      []string
}

// A Container is one place that names an image.
type Container struct {
	Where, Node, Name, Reference string
	Digest                       digest.Digest
	ClusterImage, Mirrored       string
	Found                        []image.Provenance
	Why                          string // of a stranger
}

// Verdict is one line about the whole report.
func (r *Report) Verdict() string {
	var parts []string
	if r.Image != nil {
		parts = append(parts, r.Image.Verdict())
	}
	if c := r.Change; c != nil {
		parts = append(parts, fmt.Sprintf("the upgrade moves %s", size(c.Size)))
	}
	if c := r.Cluster; c != nil {
		done := 0
		for _, s := range c.Steps {
			if s.State == StepDone {
				done++
			}
		}
		text := "no proof"
		if c.Proof != nil && c.Proof.Proven {
			text = "proven"
		} else if c.Proof != nil {
			text = "not proven: " + count(len(c.Proof.Strangers), "stranger", "strangers")
		}
		parts = append(parts, fmt.Sprintf("%d of %s done", done, count(len(c.Steps), "step", "steps")), text)
	}
	return strings.Join(parts, "; ")
}
