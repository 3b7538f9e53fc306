package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/spec"
)

// thresholds are the values that a Preflight document may set, by check.
func thresholds() map[string]string {
	return map[string]string{
		"kernel":    "4.19",
		"clock":     "1s",
		"cpus":      "2",
		"memory":    "1700M",
		"disk":      "1.1",
		"etcd-disk": "10ms",
		"mtu":       "1280",
	}
}

// checkThresholds returns the faults of the thresholds in the document.
func (in Input) checkThresholds() []error {
	known := thresholds()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(in.File.Preflight.Thresholds)) {
		value := in.File.Preflight.Thresholds[name]
		like, ok := known[name]
		if !ok {
			names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			//lint:ignore ST1005 Preflight is the name of the document
			errs = append(errs, fmt.Errorf("Preflight: threshold %q: there is none of that name: %s", name, names))
			continue
		}
		var err error
		switch name {
		case "clock", "etcd-disk":
			_, err = time.ParseDuration(value)
		case "memory":
			_, err = parseBytes(value)
		case "kernel":
			_, err = parseVersion(value)
		default:
			_, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			//lint:ignore ST1005 Preflight is the name of the document
			errs = append(errs, fmt.Errorf("Preflight: threshold %s: %q: want a value like %s", name, value, like))
		}
	}
	return errs
}

// threshold returns the value of a check; document has seen that it parses.
func (f *findings) threshold() string {
	if p := f.in.preflight(); p.Thresholds[f.name] != "" {
		return p.Thresholds[f.name]
	}
	return thresholds()[f.name]
}

func (in Input) preflight() spec.Preflight {
	if in.File == nil || in.File.Preflight == nil {
		return spec.Preflight{}
	}
	return *in.File.Preflight
}

func (f *findings) duration() time.Duration {
	d, _ := time.ParseDuration(f.threshold())
	return d
}

func (f *findings) number() float64 {
	n, _ := strconv.ParseFloat(f.threshold(), 64)
	return n
}

func (f *findings) bytes() int64 {
	n, _ := parseBytes(f.threshold())
	return n
}

// parseBytes reads 1700M, 2G or a number of bytes, in powers of 1000.
func parseBytes(s string) (int64, error) {
	factor := int64(1)
	for i, unit := range []string{"K", "M", "G", "T"} {
		if number, ok := strings.CutSuffix(strings.ToUpper(s), unit); ok {
			s = number
			for range i + 1 {
				factor *= 1000
			}
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * factor, err
}

// A version is major and minor.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) less(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// parseVersion reads the beginning of 6.1.0-13-amd64 or v1.33.2.
func parseVersion(s string) (version, error) {
	major, rest, ok := strings.Cut(strings.TrimPrefix(s, "v"), ".")
	minor := strings.TrimRightFunc(rest, func(r rune) bool { return r < '0' || '9' < r })
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || '9' < r }); i >= 0 {
		minor = rest[:i]
	}
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err != nil || err2 != nil {
		return version{}, fmt.Errorf("version %q: want MAJOR.MINOR", s)
	}
	return version{a, b}, nil
}

// size prints bytes as people read them.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}
