package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/containerd"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// nodeBlobs is the number of blobs that are sent to a containerd at a time. It
// hashes and writes each in one goroutine.
const nodeBlobs = 4

// OnNode says which images PushNode has given to a containerd, and what that cost.
type OnNode struct {
	Images  []NodeImage
	Lacking []ref.Reference // that the ClusterImage lists and does not hold
	Names   int             // that are new, or were another image's
	Blobs   int             // that were sent
	Bytes   int64           // that were sent
	Present int             // blobs that were there
}

// A NodeImage is a container image under the name that pods use.
type NodeImage struct {
	Reference ref.Reference
	Digest    digest.Digest // of the manifest or index
}

// PushNode puts the container images inside the image nameOrID, of the platform p
// (or of this machine's, where p is nil), into a node's containerd: each under the
// names that the node's kubelet uses, which are its reference by tag and by digest.
// Content that is there is not sent again, and a broken blob is gone on with. An
// image gets its names when all its content is there.
func PushNode(ctx context.Context, s *store.Store, c *containerd.Client, nameOrID string, p *ocispec.Platform, progress func(remote.Event)) (OnNode, error) {
	var out OnNode
	im, err := s.Image(ctx, nameOrID, p)
	if err != nil {
		return out, err
	}
	if err := s.Hold(ctx); err != nil && !errors.Is(err, fs.ErrPermission) {
		return out, err
	}
	src := heldSource{Store: s}
	docs := im.Documents
	held, err := HeldInFiles(s, im)
	if err != nil {
		return out, err
	}
	if held != nil {
		root, err := s.Rootfs(filesWithRegistry(s, im))
		if err != nil {
			return out, err
		}
		defer root.Close()
		src.roots = append(src.roots, root)
		docs = append([]*tree.Document{held}, docs...)
	}
	out.Lacking = unheld(im, docs)
	n := &nodePush{src: src, platform: im.Platform(), progress: progress, labels: map[digest.Digest]map[string]string{}, descs: map[digest.Digest]ocispec.Descriptor{}}
	images, err := n.plan(ctx, &im.Config, docs)
	if err != nil {
		return out, err
	}
	leased, release, err := c.Lease(ctx, im.Descriptor.Digest.String())
	if err != nil {
		return out, err
	}
	n.c = leased
	err = n.send(ctx)
	out.Blobs, out.Bytes, out.Present = n.sent, n.bytes, n.present
	if err != nil {
		return out, err // the lease keeps the blobs for the next run
	}
	for _, m := range images {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		for _, name := range nodeNames(m.Reference, m.Digest) {
			changed, err := leased.Name(ctx, name, n.descs[m.Digest])
			if err != nil {
				return out, err
			}
			if changed {
				out.Names++
			}
		}
		out.Images = append(out.Images, m)
	}
	return out, release(ctx)
}

// nodeNames are the names by which a kubelet asks containerd for r: that with the
// tag, and that with the digest, without the tag even where both stand in a pod.
func nodeNames(r ref.Reference, d digest.Digest) []string {
	byDigest := ref.Reference{Registry: r.Registry, Repository: r.Repository, Digest: d}
	if r.Tag == "" || r.Digest != "" {
		return []string{byDigest.String()}
	}
	return []string{ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: r.Tag}.String(), byDigest.String()}
}

// A nodePush is the content to send.
type nodePush struct {
	c        *containerd.Client
	src      heldSource
	platform ocispec.Platform
	progress func(remote.Event)

	order  []digest.Digest                      // each after the content that it refers to
	descs  map[digest.Digest]ocispec.Descriptor // by digest
	labels map[digest.Digest]map[string]string  // of manifests and indexes: the content that they refer to

	mu      sync.Mutex
	sent    int
	bytes   int64
	present int
	done    int64
	total   int64
}

// plan returns the images that docs hold of those that c lists, sorted, and fills n
// with their content.
func (n *nodePush) plan(ctx context.Context, c *image.Config, docs []*tree.Document) ([]NodeImage, error) {
	revisions := map[string]tree.Revision{} // by repository@digest, and by repository:tag
	for _, doc := range docs {              // a higher layer's tag hides a lower one's
		for _, r := range doc.Repositories {
			own := map[digest.Digest]tree.Revision{}
			for _, v := range r.Revisions {
				own[v.Digest], revisions[r.Name+"@"+v.Digest.String()] = v, v
			}
			for _, t := range r.Tags {
				revisions[r.Name+":"+t.Name] = own[t.Digest]
			}
		}
	}
	private := cmp.Or(c.PrivateRegistry.Name, ref.DefaultPrivate)
	var images []NodeImage
	for _, r := range c.References() {
		target := c.PrivateRegistry.Naming.Target(private, r)
		if target.Digest != "" {
			target.Tag = ""
		}
		v, ok := revisions[target.Repository+target.Suffix()]
		m := NodeImage{r, v.Digest}
		if !ok || slices.Contains(images, m) {
			continue
		}
		desc := ocispec.Descriptor{MediaType: v.MediaType, Digest: v.Digest, Size: v.Size}
		if err := n.add(ctx, desc, 0); err != nil {
			return nil, fmt.Errorf("image %s: %w", r, err)
		}
		images = append(images, m)
	}
	slices.SortFunc(images, func(a, b NodeImage) int { return cmp.Compare(a.Reference.String(), b.Reference.String()) })
	for _, d := range n.descs {
		n.total += d.Size
	}
	return images, nil
}

// maxIndexes bounds indexes inside indexes.
const maxIndexes = 4

// add plans d and the content that it refers to: of an index, the manifests of the
// platform.
func (n *nodePush) add(ctx context.Context, d ocispec.Descriptor, depth int) error {
	if _, seen := n.descs[d.Digest]; seen {
		return nil
	}
	if depth > maxIndexes {
		return fmt.Errorf("index %s: more than %d indexes inside each other", d.Digest, maxIndexes)
	}
	b, err := n.read(ctx, d)
	if err != nil {
		return err
	}
	m, err := remote.ParseManifest(d.MediaType, b)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	d.MediaType, d.Size = m.MediaType, int64(len(b))
	labels := map[string]string{}
	for i, child := range m.Manifests {
		if !n.wanted(ctx, child) {
			continue
		}
		if err := n.add(ctx, child, depth+1); err != nil {
			return err
		}
		labels[containerd.LabelContent+"m."+strconv.Itoa(i)] = child.Digest.String()
	}
	for i, l := range m.Layers {
		n.blob(l)
		labels[containerd.LabelContent+"l."+strconv.Itoa(i)] = l.Digest.String()
	}
	if m.Config.Digest != "" {
		n.blob(m.Config)
		labels[containerd.LabelContent+"config"] = m.Config.Digest.String()
	}
	n.blob(d)
	n.labels[d.Digest] = labels
	return nil
}

func (n *nodePush) blob(d ocispec.Descriptor) {
	if _, seen := n.descs[d.Digest]; !seen {
		n.descs[d.Digest] = d
		n.order = append(n.order, d.Digest)
	}
}

// wanted reports whether a manifest of an index is sent: it is the platform's, or
// says no platform, and it is here.
func (n *nodePush) wanted(ctx context.Context, d ocispec.Descriptor) bool {
	if d.Platform != nil && !platform.Match(n.platform, *d.Platform) {
		return false
	}
	f, err := n.src.OpenBlob(ctx, d.Digest)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func (n *nodePush) read(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	f, err := n.src.OpenBlob(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, remote.MaxManifest+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("manifest %s: %w", d.Digest, err)
	case len(b) > remote.MaxManifest:
		return nil, fmt.Errorf("manifest %s: more than %d bytes", d.Digest, remote.MaxManifest)
	case digest.FromBytes(b) != d.Digest:
		return nil, fmt.Errorf("manifest %s: %w: its digest is %s", d.Digest, store.ErrMismatch, digest.FromBytes(b))
	}
	return b, nil
}

// send sends the content: the blobs first, then the manifests, each after those
// that it lists.
func (n *nodePush) send(ctx context.Context) error {
	g, run := errgroup.WithContext(ctx)
	g.SetLimit(nodeBlobs)
	for _, d := range n.order {
		if n.labels[d] == nil {
			g.Go(func() error { return n.one(run, d) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, d := range n.order {
		if n.labels[d] == nil {
			continue
		}
		if err := n.one(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// one makes containerd have one blob.
func (n *nodePush) one(ctx context.Context, d digest.Digest) (err error) {
	desc, want := n.descs[d], n.labels[d]
	has, there, err := n.c.Labels(ctx, d)
	if err != nil {
		return err
	}
	if there {
		// Another image may be all that keeps it, and may go before this one comes.
		if err := n.c.Keep(ctx, d); err != nil {
			return err
		}
		missing := maps.Clone(want)
		maps.DeleteFunc(missing, func(k, v string) bool { return has[k] == v })
		if len(missing) > 0 {
			err = n.c.AddLabels(ctx, d, missing)
		}
		n.report(desc, 0, true)
		return err
	}
	f, err := n.src.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sent, err := n.c.Put(ctx, desc, want, f)
	if err == nil {
		n.report(desc, sent, false)
	}
	return err
}

func (n *nodePush) report(d ocispec.Descriptor, sent int64, there bool) {
	n.mu.Lock()
	e := remote.Event{Op: "push", Digest: d.Digest, Size: d.Size, Finished: true, Total: n.total}
	if there {
		n.present++
		e.Op = "exists"
	} else {
		n.sent++
	}
	n.bytes += sent
	n.done += d.Size
	e.Done = n.done
	n.mu.Unlock()
	if n.progress != nil {
		n.progress(e)
	}
}
