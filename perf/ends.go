package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/clusterimage/sealer/perf/figure"
)

// link is the speed that the bounds are derived for, in GB/s: 10 Gbit/s.
const link = 1.25

// ends derives where one machine ends from the figures of the run. A line whose
// figures are missing says so.
func (w *pageWriter) ends(r *record) {
	w.WriteString("\n## Where one machine ends\n\nDerived from the figures above, and measured nowhere. Links are of 10 Gbit/s (1.25 GB/s) where nothing else is said.\n\n")
	for _, line := range []func(*record) (string, bool){pushEnds, serveEnds, farmEnds, spreadEnds, nodeEnds, storeEnds, buildEnds} {
		text, ok := line(r)
		if !ok {
			text += " Not derived: the figures for it are missing in this run."
		}
		fmt.Fprintf(w, "- %s\n", text)
	}
}

// find returns a single figure of a part.
func (r *record) find(part, name, unit string) (figure.Figure, bool) {
	for _, o := range r.Parts {
		if o.Name != part {
			continue
		}
		for _, f := range o.Figures {
			if _, n := group(f.Name); n == name && f.Unit == unit && f.X == 0 {
				return f, true
			}
		}
	}
	return figure.Figure{}, false
}

// curve returns a growth of a part, with two points at least.
func (r *record) curve(part, name, unit string) (curve, bool) {
	for _, o := range r.Parts {
		if o.Name != part {
			continue
		}
		cs := curves(o.Figures)
		i := slices.IndexFunc(cs, func(c curve) bool { return c.Name == name && c.Unit == unit && len(c.points) > 1 })
		if i >= 0 {
			return cs[i], true
		}
	}
	return curve{}, false
}

func (c curve) last() point { return c.points[len(c.points)-1] }

func pushEnds(r *record) (string, bool) {
	const what = "**Push targets.**"
	requests, ok := r.curve("images", "push", "requests")
	cpu, ok2 := r.curve("images", "push", "CPU s")
	again, ok3 := r.curve("images", "push again", "requests")
	if !ok || !ok2 || !ok3 {
		return what, false
	}
	each, _ := requests.marginal()
	own, _ := cpu.marginal()
	return fmt.Sprintf(`%s A first push is %s requests for one more image of 4 blobs, and %s ms of processor time here; again it is %s requests for %s images. At 30 ms over 8 connections the requests of 1,000 such images take %s s, and 100 GB take %s s of a link of 10 Gbit/s: bytes are the bound of any real image set, and the target's disk or object storage before sealer. The target may be any number of registries that share one storage (distribution over S3, Harbor, zot): a push needs nothing but the distribution protocol, and its upload sessions to stay at one replica or in shared storage.`,
		what, number(round(each)), number(round(own*1000)), number(again.last().y), number(again.last().x), number(math.Ceil(each*1000*0.03/8)), number(100/link)), true
}

func serveEnds(r *record) (string, bool) {
	const what = "**`registry serve`.**"
	gb, ok := r.find("serve", "processor time for a GB", "CPU s")
	manifests, ok2 := r.find("serve", "processor time for 1,000 manifests", "CPU s")
	if !ok || !ok2 || gb.Value <= 0 || manifests.Value <= 0 {
		return what, false
	}
	return fmt.Sprintf(`%s One processor sends %s GB/s without TLS (the kernel copies from file to socket) and answers %s manifests a second. A link of 10 Gbit/s is full at %s of a processor, so the network card is the bound: 1,000 machines that pull 1 GB each take %s s from one server, with two manifests each for 20 images %s s of one processor. Behind that: several servers, each with the image in its own store (they only read; any balancer does), or `+"`sealer registry push`"+` into replicated registries over object storage, whose redirects take the bytes off the servers. sealer itself does not serve from object storage.`,
		what, number(round(1/gb.Value)), number(round(1000/manifests.Value)), number(round(link*gb.Value)), number(1000/link), number(round(1000*20*2/1000*manifests.Value))), true
}

func farmEnds(r *record) (string, bool) {
	const what = "**Build farms.**"
	cold, ok := r.find("farm", "first machine, without a cache", "CPU s")
	writes, ok2 := r.find("farm", "first machine, writes the cache", "CPU s")
	warm, ok3 := r.find("farm", "second machine, reads the cache", "CPU s")
	if !ok || !ok2 || !ok3 || cold.Value <= 0 {
		return what, false
	}
	return fmt.Sprintf(`%s Writing the cache costs %s times the build without one, and reading it %s times. Machines share nothing but that registry, so their number is bounded by its bytes: a layer that is in the cache crosses the link once for each machine. Two machines that build the same step at once both do it; the second to finish finds the blobs there.`,
		what, number(round(writes.Value/cold.Value)), number(round(warm.Value/cold.Value))), true
}

func spreadEnds(r *record) (string, bool) {
	const what = "**Spreading to machines.**"
	time, ok := r.curve("spread", "until all have it", "s")
	copies, ok2 := r.curve("spread", "sent by the engine", "copies")
	if !ok || !ok2 {
		return what, false
	}
	n, took := time.last().x, time.last().y
	return fmt.Sprintf(`%s In the simulation %s machines have 1 GB after %s s, and the engine has sent %s copies; one machine that sends to all over its 1 Gbit/s would take %s s. The time grows with the logarithm (slope %s at the end), so the bound is the engine's sessions and processor time, not the bytes. It assumes that all machines reach each other at full speed: racks whose uplinks are shared take longer.`,
		what, number(n), number(round(took)), number(copies.last().y), number(n*8), slopeText(time)), true
}

func nodeEnds(r *record) (string, bool) {
	const what = "**Machines of a run.**"
	cpu, ok := r.curve("nodes", "run", "CPU s")
	mb, ok2 := r.curve("nodes", "run", "MB of memory")
	if !ok || !ok2 {
		return what, false
	}
	each, _ := cpu.marginal()
	return fmt.Sprintf(`%s %s machines take %s CPU s and %s MB, both ends together; one more %s ms, with the slope %s between the two largest. Beyond that nothing was measured. Kubernetes itself says 5,000 nodes.`,
		what, number(cpu.last().x), number(round(cpu.last().y)), number(round(mb.last().y)), number(round(each*1000)), slopeText(cpu)), true
}

func storeEnds(r *record) (string, bool) {
	const what = "**Images in a store.**"
	list, ok := r.curve("stored", "list, first time", "CPU ms")
	remove, ok2 := r.curve("stored", "remove one", "CPU ms")
	if !ok || !ok2 {
		return what, false
	}
	return fmt.Sprintf(`%s With %s images, a list takes %s ms of processor time when nothing is remembered (slope %s), and removing one %s ms. The bound is the disk.`,
		what, number(list.last().x), number(round(list.last().y)), slopeText(list), number(round(remove.last().y))), true
}

func buildEnds(r *record) (string, bool) {
	const what = "**One build.**"
	images, ok := r.curve("images", "build", "MB of memory")
	cpu, ok2 := r.curve("images", "build", "CPU s")
	files, ok3 := r.curve("files", "build", "MB of memory")
	if !ok || !ok2 || !ok3 {
		return what, false
	}
	image, _ := images.marginal()
	work, _ := cpu.marginal()
	file, _ := files.marginal()
	return fmt.Sprintf(`%s One more image of 4 blobs costs %s ms and %s kB of memory, one more file %s kB. 60,000 blobs in one image were tried ([limits.md](limits.md)).`,
		what, number(round(work*1000)), number(round(max(image, 0)*1000)), number(round(max(file, 0)*1000))), true
}

func slopeText(c curve) string {
	s, ok := c.end()
	if !ok {
		return "not known"
	}
	return fmt.Sprintf("%.2f", s)
}

// round keeps two digits that count.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	p := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return math.Round(v/p) * p
}
