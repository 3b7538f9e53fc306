package imagelist

import "time"

// The limits that bound a scan of hostile input. Real input stays far below:
// etcd takes objects up to 1.5 MiB, the largest bundles of manifests in use
// have about 10 MiB, and Helm refuses charts above 100 MiB.
const (
	maxFile     = 64 << 20 // bytes of a manifest, a list, or a values file
	maxDocument = 8 << 20  // bytes of one YAML document
	maxNodes    = 1 << 20  // separators in one YAML document, which bound its nodes
	maxDepth    = 256      // nesting of maps and lists
	maxVisits   = 4 << 20  // nodes visited in one document, aliases followed
	maxOther    = 32 << 20 // bytes of a file outside manifests and charts that is looked into; Kyverno installs from 6 MB
	maxLine     = 64 << 10 // bytes of a line in an image list
	maxEmbedded = 3        // documents inside strings inside documents

	maxKeptCharts  = 64 << 20         // bytes of charts in memory that wait to be rendered
	maxChart       = 100 << 20        // bytes of a chart's files
	maxChartRender = 64 << 20         // bytes of a chart's rendering
	maxRenderHeap  = 512 << 20        // bytes that rendering one chart may add to the heap
	maxRenderTime  = 60 * time.Second // of one processor, for rendering one chart

	maxFaults = 20 // faults that the error of a scan tells
)
