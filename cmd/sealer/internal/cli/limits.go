package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/store"
)

// limitFlag is --limit: NAME=VALUE, several separated by commas.
type limitFlag struct{ limits *store.Limits }

// limitFlags registers --limit, which withStore gives to the store.
func (a *app) limitFlags(f *pflag.FlagSet) {
	f.Var(limitFlag{&a.limits}, "limit", "another `NAME=VALUE` bound of content from elsewhere: entries of a layer or archive (1000000), names, bytes of names and attributes in a layer (64MiB), unpacked, bytes that a layer unpacks to (1GiB or 200 times its blob), document, bytes of a registry layer document (32MiB); manifest, bytes of a manifest that is written, beyond which the mirrored blobs are listed in further manifests (3.5MiB)")
}

// String implements pflag.Value.
func (l limitFlag) String() string { return "" }

// Type implements pflag.Value.
func (l limitFlag) Type() string { return "NAME=VALUE" }

// Set implements pflag.Value.
func (l limitFlag) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(one, "=")
		parse := parseSize
		var to *int64
		switch strings.TrimSpace(name) {
		case "entries":
			to = &l.limits.Layer.Entries
			parse = func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
		case "names":
			to = &l.limits.Layer.Names
		case "unpacked":
			to = &l.limits.Layer.Unpacked
		case "document":
			to = &l.limits.Document
		case "manifest":
			to = &l.limits.Manifest
		default:
			return fmt.Errorf("%q: want entries=, names=, unpacked=, document= or manifest=", one)
		}
		n, err := parse(strings.TrimSpace(value))
		if err != nil || n <= 0 {
			return fmt.Errorf("%q: want a number such as 2000000, or a size such as 100MiB", one)
		}
		*to = n
	}
	return nil
}

// units are the powers of two and of ten that sizes are written with.
var units = map[string]int64{
	"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "KB": 1000, "M": 1 << 20, "MIB": 1 << 20, "MB": 1000_000,
	"G": 1 << 30, "GIB": 1 << 30, "GB": 1000_000_000, "T": 1 << 40, "TIB": 1 << 40, "TB": 1000_000_000_000,
}

// parseSize reads a size in bytes: 4096, 100MiB, 4G (of 1024), 1.5GB (of 1000).
func parseSize(s string) (int64, error) {
	end := strings.LastIndexAny(s, "0123456789") + 1
	unit, ok := units[strings.ToUpper(strings.TrimSpace(s[end:]))]
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || !ok || n < 0 || n*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q: want bytes, or a number with KiB, MiB, GiB, TiB", s)
	}
	return int64(n * float64(unit)), nil
}
