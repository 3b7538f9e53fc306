// Mutate measures the tests of packages: it changes one condition or sum of a
// package at a time, and the package's own tests must fail. "make mutate" runs
// it:
//
//	go run ./.ci/mutate [-accepted FILE] [-only PLACE,...] [-workers N] PACKAGE...
//
// A package is compiled once, with all its mutants in it; the environment
// variable MUTANT chooses one of them at run time. Gremlins, whose mutators and
// names these are, compiles and runs all tests of a package for each mutant:
// hours for packages that this takes minutes for. The tests run one by one
// first, to see which mutants each evaluates; then each mutant is tried with
// just the tests that reach it, the shortest first. A test that hangs has found
// the mutant.
//
// The file of accepted survivors has a line for each mutant that changes no
// behaviour: FILE, MUTATOR, the source line as the mutant has it, and the
// reason, separated by tabs. Lines instead of their numbers keep it valid when
// others move.
//
// Constant declarations and array lengths have no mutants: a constant cannot
// be chosen at run time.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The least shares, in percent, of the mutants reached that are killed, and of
// all mutants that are reached by a test.
const (
	leastKilled  = 95
	leastCovered = 85
)

// Survivor is a key of the accepted file.
type survivor struct{ file, mutator, line string }

func main() {
	file := flag.String("accepted", ".ci/mutants", "survivors that change nothing")
	only := flag.String("only", "", "try just these places, FILE or FILE:LINE, separated by commas")
	workers := flag.Int("workers", 1, "mutants at a time")
	flag.Parse()
	accepted, err := readAccepted(*file)
	check(err)
	places := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	ok := true
	for _, dir := range flag.Args() {
		dir = filepath.Clean(dir)
		good, err := measure(dir, places, *workers, accepted)
		if err != nil {
			check(fmt.Errorf("%s: %w", dir, err))
		}
		ok = ok && good
		for s, used := range accepted {
			if !used && len(places) == 0 && filepath.Dir(s.file) == dir {
				fmt.Printf("%s: no survivor any more, remove it: %s: %s: %s\n", *file, s.file, s.mutator, s.line)
			}
		}
	}
	if !ok {
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// readAccepted returns the accepted survivors; the value becomes true when one
// is met.
func readAccepted(name string) (map[survivor]bool, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	out := map[survivor]bool{}
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || fields[3] == "" {
			return nil, fmt.Errorf("%s:%d: want FILE, MUTATOR, the mutant's line and the reason, separated by tabs", name, i+1)
		}
		out[survivor{fields[0], fields[1], fields[2]}] = false
	}
	return out, nil
}

// measure tries the mutants of the package in dir. It prints each mutant that
// survives, and reports whether enough are killed and covered.
func measure(dir string, only []string, workers int, accepted map[survivor]bool) (bool, error) {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	run := runner{dir: dir, work: work, program: filepath.Join(work, "tests")}
	mutants, err := compile(dir, work, run.program)
	if err != nil {
		return false, err
	}
	if len(only) > 0 {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool {
			return !slices.Contains(only, m.file) && !slices.Contains(only, m.place())
		})
	}
	if err := run.baseline(); err != nil {
		return false, err
	}
	n := tally{accepted: accepted}
	var wg sync.WaitGroup
	slots := make(chan struct{}, workers)
	for _, m := range mutants {
		slots <- struct{}{}
		wg.Go(func() {
			n.add(m, run.try(m.id))
			<-slots
		})
	}
	wg.Wait()
	tried := n.killed + n.hung + n.lived + n.known
	killed, covered := percent(n.killed+n.hung, tried-n.known), percent(tried, tried+n.missed)
	fmt.Printf("%-20s %4d mutants: %5.1f %% killed (%d hung, %d lived, %d accepted), %5.1f %% covered\n",
		dir, tried+n.missed, killed, n.hung, n.lived, n.known, covered)
	return killed >= leastKilled && covered >= leastCovered, nil
}

// tally counts the mutants of a package by their fate. It prints each mutant that
// no test kills.
type tally struct {
	mu       sync.Mutex
	accepted map[survivor]bool

	killed, hung, lived, known, missed int
}

func (n *tally) add(m mutant, o outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := survivor{m.file, m.mutator, m.line}
	_, known := n.accepted[key]
	switch {
	case o == missed:
		n.missed++
		fmt.Printf("%s: not covered: %s: %s\n", m.place(), m.mutator, m.line)
	case o == killed:
		n.killed++
	case o == hung:
		n.hung++
	case known:
		n.accepted[key] = true
		n.known++
	default:
		n.lived++
		fmt.Printf("%s: lived: %s: %s\n", m.place(), m.mutator, m.line)
	}
}

func percent(part, all int) float64 {
	if all == 0 {
		return 100
	}
	return 100 * float64(part) / float64(all)
}
