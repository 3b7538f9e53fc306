// Crashtest tries whether a store of sealer loses an image when its commands are
// killed, meet failing system calls, full disks and power cuts, or run beside
// each other. It prints counts, and exits with 1 when anything was lost.
//
//	crashtest -sealer bin/sealer -kills 200 -full 20 -faults 60 -cuts 20
//	crashtest -sealer bin/sealer -race 3m
//
// After each event it asks for the same: every image that was named before is
// whole, no other is visible, the interrupted command succeeds when it is
// repeated, and prune leaves only what the images need. Full disks and power cuts
// need root, loop devices and mkfs.ext4; faults need strace. It says which parts it left out.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

func main() {
	var sealer string
	var kills, full, faults, cuts int
	var seed uint64
	var race time.Duration
	flag.StringVar(&sealer, "sealer", "bin/sealer", "the program under test")
	flag.IntVar(&kills, "kills", 0, "commands to kill at a random moment")
	flag.IntVar(&full, "full", 0, "disks to fill, by bytes and by inodes")
	flag.IntVar(&faults, "faults", 0, "system calls to make fail, by strace")
	flag.IntVar(&cuts, "cuts", 0, "power cuts of a loop file")
	flag.DurationVar(&race, "race", 0, "run 8 processes on one store for so long")
	flag.Uint64Var(&seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.Parse()
	if err := run(sealer, seed, kills, full, faults, cuts, race); err != nil {
		fmt.Fprintln(os.Stderr, "crashtest:", err)
		os.Exit(1)
	}
}

func run(sealer string, seed uint64, kills, full, faults, cuts int, race time.Duration) (err error) {
	program, err := filepath.Abs(sealer)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "crashtest-")
	if err != nil {
		return err
	}
	l, err := newLab(program, dir, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	defer func() {
		l.close()
		if err != nil {
			fmt.Printf("the directory is kept: %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	fmt.Printf("seed %d\n", seed)
	for _, part := range []struct {
		name   string
		events int
		run    func(n int)
	}{{"kills", kills, l.kills}, {"faults", faults, l.faults}, {"full disks", full, l.fullDisks}, {"power cuts", cuts, l.powerCuts}} {
		if part.events > 0 {
			start := time.Now()
			l.part, l.first = part.name, l.rng.IntN(len(ops))
			part.run(part.events)
			l.report(time.Since(start))
		}
	}
	if race > 0 {
		l.part = "processes"
		l.race(race)
		l.report(race)
	}
	if l.losses > 0 {
		return fmt.Errorf("%d losses", l.losses)
	}
	return nil
}
