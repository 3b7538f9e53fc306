package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// race runs 8 processes beside each other on one store for the time d. Each has
// names of its own; the content is shared. No command may fail, but for a prune that
// says that others write.
func (l *lab) race(d time.Duration) {
	root := l.dir + "/race"
	if err := l.fill(root); err != nil {
		l.lost("fill: %v", err)
		return
	}
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for w := range 8 {
		rng := rand.New(rand.NewPCG(l.rng.Uint64(), uint64(w)))
		wg.Go(func() {
			for time.Now().Before(end) {
				l.raceOnce(root, w, rng)
			}
		})
	}
	wg.Wait()
	if out, err := l.run(root, "verify", "--all"); err != nil {
		l.lost("verify --all: %v\n%s", err, out)
	}
	if have, err := l.images(root); err == nil {
		l.checks += len(have)
	}
	l.minimal("at the end", root)
}

// raceOnce runs one command of process w, and another that looks at its result.
func (l *lab) raceOnce(root string, w int, rng *rand.Rand) {
	own := fmt.Sprintf("crash.example/race%d:", w)
	for _, args := range [][][]string{
		{{"build", "-q", "-t", own + "build", fmt.Sprintf("%s/ctx%d", l.dir, rng.IntN(5))}, {"verify", own + "build"}},
		{{"pull", "-q", l.pulled()}, {"tag", l.pulled(), own + "pull"}, {"verify", own + "pull"}},
		{{"load", "-q", "-i", l.dir + "/load.tar"}, {"tag", "crash.example/load:1", own + "load"}, {"verify", own + "load"}},
		{{"tag", keepOne, own + "tag"}, {"save", "-o", fmt.Sprintf("%s/race%d.tar", l.dir, w), own + "tag"}, {"rmi", own + "tag"}},
		{{"merge", "-t", own + "merge", keepOne, keepTwo}, {"rmi", own + "merge"}},
		{{"push", "-q", keepTwo + "", fmt.Sprintf("%s/x/race%d:1", l.up.Host(), w)}},
		{{"build", "-q", "-t", own + "gone", fmt.Sprintf("%s/ctx%d", l.dir, rng.IntN(5))}, {"rmi", own + "gone"}},
		{{"build", "-q", "--limit", manifestLimit, "-t", own + "split", fmt.Sprintf("%s/ctx%d", l.dir, rng.IntN(4))}, {"verify", own + "split"}, {"rmi", own + "split"}},
		{{"pull", "-q", l.splitPulled()}, {"tag", l.splitPulled(), own + "splitpull"}, {"verify", own + "splitpull"}, {"rmi", own + "splitpull"}},
		{{"save", "-o", fmt.Sprintf("%s/race%d.delta", l.dir, w), "--without", keepOne, keepSplit}, {"load", "-q", "-i", fmt.Sprintf("%s/race%d.delta", l.dir, w)}},
		{{"registry", "push", keepSplit, "--to", fmt.Sprintf("%s/race%d", l.up.Host(), w)}},
		{{"inventory", "-o", fmt.Sprintf("%s/race%d.inv", l.dir, w)}},
		{{"prune"}}, {{"verify", "--repair", keepOne}}, {{"images"}},
	}[rng.IntN(15)] {
		out, err := l.run(root, args...)
		l.mu.Lock()
		l.events++
		l.mu.Unlock()
		if err != nil && args[0] == "prune" && strings.Contains(err.Error(), "the store is in use") {
			l.mu.Lock()
			l.failed++ // as documented: it waits for no writer
			l.mu.Unlock()
			continue
		}
		if err != nil {
			l.lost("process %d: sealer %s: %v\n%s", w, strings.Join(args, " "), err, out)
			return
		}
	}
}
