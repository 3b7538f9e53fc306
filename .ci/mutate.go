// Mutate runs gremlins over packages, each with its own tests only, and fails
// when too many mutants survive. "make mutate" runs it:
//
//	go run .ci/mutate.go [-accepted FILE] PACKAGE...
//
// The file of accepted survivors has a line for each mutant that changes no
// behaviour: FILE, MUTATOR, the source line and the reason, separated by tabs.
// Source lines instead of numbers keep it valid when other lines move.
//
// Conditions in a case clause are left out of the count of covered mutants: Go
// gives them no block in a coverage profile, so gremlins never tries them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The least shares, in percent, of the mutants tried that are killed, and of
// all mutants that are tried.
const (
	leastKilled  = 95
	leastCovered = 85
)

type report struct {
	Files []struct {
		Name    string `json:"file_name"`
		Mutants []struct {
			Type, Status string
			Line, Column int
		} `json:"mutations"`
	} `json:"files"`
}

// A survivor is a key of the accepted file.
type survivor struct{ file, mutator, source string }

type count struct{ killed, lived, accepted, missed int }

func main() {
	file := flag.String("accepted", ".ci/mutants", "survivors that change nothing")
	workers := flag.Int("workers", 0, "mutants at a time; 0 is one a processor")
	flag.Parse()
	accepted, err := readAccepted(*file)
	if err != nil {
		fail(err)
	}
	ok := true
	for _, pkg := range flag.Args() {
		good, err := mutate(pkg, *workers, accepted)
		if err != nil {
			fail(fmt.Errorf("mutate %s: %w", pkg, err))
		}
		ok = ok && good
	}
	for s, used := range accepted {
		if !used && ranOver(s.file, flag.Args()) {
			fmt.Printf("%s: no survivor any more, remove it: %s: %s: %s\n", *file, s.file, s.mutator, s.source)
		}
	}
	if !ok {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(1)
}

func ranOver(file string, packages []string) bool {
	for _, pkg := range packages {
		if filepath.Dir(file) == filepath.Clean(pkg) {
			return true
		}
	}
	return false
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
			return nil, fmt.Errorf("%s:%d: want FILE, MUTATOR, source line and reason, separated by tabs", name, i+1)
		}
		out[survivor{fields[0], fields[1], fields[2]}] = false
	}
	return out, nil
}

// mutate tries the mutants of one package and prints those that survive.
func mutate(pkg string, workers int, accepted map[survivor]bool) (bool, error) {
	pkg = filepath.Clean(pkg)
	out, err := os.CreateTemp("", "mutate-*.json")
	if err != nil {
		return false, err
	}
	out.Close()
	defer os.Remove(out.Name())
	cmd := exec.Command("gremlins", "unleash", "./"+pkg, "--silent", "--output", out.Name(),
		"--timeout-coefficient", "30", "--workers", fmt.Sprint(workers))
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("gremlins: %w", err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		return false, err
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return false, fmt.Errorf("read gremlins' report: %w", err)
	}
	var n count
	for _, f := range r.Files {
		path := f.Name
		if !strings.HasPrefix(path, pkg+"/") {
			path = filepath.Join(pkg, path)
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		lines := strings.Split(string(source), "\n")
		for _, m := range f.Mutants {
			line := strings.TrimSpace(lines[m.Line-1])
			switch m.Status {
			case "KILLED", "TIMED OUT":
				n.killed++
			case "LIVED":
				if key := (survivor{path, m.Type, line}); hasKey(accepted, key) {
					accepted[key] = true
					n.accepted++
					continue
				}
				n.lived++
				fmt.Printf("%s:%d:%d: lived: %s: %s\n", path, m.Line, m.Column, m.Type, line)
			case "NOT COVERED":
				if !strings.HasPrefix(line, "case ") {
					n.missed++
					fmt.Printf("%s:%d:%d: not covered: %s: %s\n", path, m.Line, m.Column, m.Type, line)
				}
			}
		}
	}
	tried := n.killed + n.lived + n.accepted
	killed, covered := percent(n.killed, n.killed+n.lived), percent(tried, tried+n.missed)
	fmt.Printf("%-20s %4d mutants: %5.1f %% killed (%d lived, %d accepted), %5.1f %% covered\n", pkg, tried+n.missed, killed, n.lived, n.accepted, covered)
	return killed >= leastKilled && covered >= leastCovered, nil
}

func hasKey(m map[survivor]bool, key survivor) bool {
	_, ok := m[key]
	return ok
}

func percent(part, all int) float64 {
	if all == 0 {
		return 100
	}
	return 100 * float64(part) / float64(all)
}
