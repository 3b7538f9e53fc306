package inventory_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image/inventory"
)

func sample(blobs int) *inventory.Inventory {
	v := &inventory.Inventory{}
	for i := range blobs {
		v.Blobs = append(v.Blobs, inventory.Blob{Digest: digest.FromString(fmt.Sprint(i)), Size: int64(i) << (i % 35)})
	}
	return v
}

func encode(t testing.TB, v *inventory.Inventory) []byte {
	t.Helper()
	b, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	named := sample(3)
	named.Names = []inventory.Name{{Name: "docker.io/library/b:v1", Digest: named.Blobs[0].Digest}, {Name: "docker.io/library/a:v1", Digest: named.Blobs[1].Digest}}
	for name, v := range map[string]*inventory.Inventory{"empty": sample(0), "one": sample(1), "many": sample(1000), "named": named} {
		b := encode(t, v)
		got, err := inventory.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(append([]inventory.Blob{}, v.Blobs...), got.Blobs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(v.Names, got.Names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n := len(v.Blobs); n >= 100 && len(b) > 40*n {
			t.Errorf("%s: %d bytes for %d blobs", name, len(b), n)
		}
	}
}

func TestOrderAndRepetitionsDoNotMatter(t *testing.T) {
	t.Parallel()
	v := sample(10)
	want := encode(t, sample(10))
	v.Blobs[0], v.Blobs[9] = v.Blobs[9], v.Blobs[0]
	v.Blobs = append(v.Blobs, v.Blobs[3])
	if !bytes.Equal(encode(t, v), want) {
		t.Error("another order gave other bytes")
	}
}

// sealed replaces the checksum at the end of b by the right one.
func sealed(b []byte) []byte {
	b = bytes.Clone(b[:len(b)-sha256.Size])
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := encode(t, sample(20))
	head := len("sealer inventory 1\n")
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, tc := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":           {nil, "does not begin"},
		"another file":    {[]byte("PK\x03\x04"), "does not begin"},
		"version":         {change(func(b []byte) []byte { b[head-2] = '2'; return sealed(b) }), `version "2", and this sealer reads version 1`},
		"no version":      {good[:head-2], `version ""`},
		"cut at once":     {good[:head], "cut short"},
		"cut":             {good[:len(good)/2], "cut short"},
		"a bit":           {change(func(b []byte) []byte { b[100] ^= 1; return b }), "checksum is wrong"},
		"more":            {append(bytes.Clone(good), 0), "checksum is wrong"},
		"too many":        {change(func(b []byte) []byte { b[head] = 100; return sealed(b) }), "cut short"},
		"fewer":           {change(func(b []byte) []byte { b[head] = 19; return sealed(b) }), ""},
		"order":           {change(func(b []byte) []byte { b[head+1] = 0xff; return sealed(b) }), "not in order"},
		"long number":     {change(func(b []byte) []byte { b[len(b)-sha256.Size-1] = 0x80; return sealed(append(b, 0)) }), ""},
		"trailing":        {sealed(append(bytes.Clone(good[:len(good)-sha256.Size]), make([]byte, 3+sha256.Size)...)), "3 bytes follow"},
		"name with a \\n": {sealed(append(append(bytes.Clone(good[:len(good)-sha256.Size-1]), 1, 1, '\n'), make([]byte, 2*sha256.Size)...)), `name "\n"`},
	} {
		_, err := inventory.Parse(tc.b)
		if !errors.Is(err, inventory.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	d := digest.FromString("x")
	for name, v := range map[string]inventory.Inventory{
		"negative":          {Blobs: []inventory.Blob{{Digest: d, Size: -1}}},
		"two sizes":         {Blobs: []inventory.Blob{{Digest: d, Size: 1}, {Digest: d, Size: 2}}},
		"sha512":            {Blobs: []inventory.Blob{{Digest: digest.Digest("sha512:" + strings.Repeat("a", 128))}}},
		"no name":           {Names: []inventory.Name{{Digest: d}}},
		"name twice":        {Names: []inventory.Name{{Name: "a", Digest: d}, {Name: "a", Digest: digest.FromString("y")}}},
		"name with a space": {Names: []inventory.Name{{Name: "a b", Digest: d}}},
	} {
		if _, err := v.Encode(); !errors.Is(err, inventory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	a, b := digest.FromString("a"), digest.FromString("b")
	set := inventory.Set{}
	set.Add(&inventory.Inventory{Blobs: []inventory.Blob{{Digest: a, Size: 1}, {Digest: b, Size: 2}}})
	set.Add(&inventory.Inventory{Blobs: []inventory.Blob{{Digest: b, Size: 3}}})
	if !set.Has(a, 1) || set.Has(a, 2) || set.Has(b, 2) || set.Has(b, 3) || set.Has(b, -1) || set.Has(digest.FromString("c"), 0) {
		t.Errorf("set %v", set)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, sample(0)))
	f.Add(encode(f, sample(7)))
	named := sample(2)
	named.Names = []inventory.Name{{Name: "docker.io/library/a:v1", Digest: named.Blobs[0].Digest}}
	f.Add(encode(f, named))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, in := range [][]byte{b, sealed(append([]byte("sealer inventory 1\n"), append(b, make([]byte, sha256.Size)...)...))} {
			v, err := inventory.Parse(in)
			if err != nil {
				if !errors.Is(err, inventory.ErrInvalid) {
					t.Errorf("%v", err)
				}
				continue
			}
			if again := encode(t, v); !bytes.Equal(again, in) {
				t.Errorf("%x came back as %x", in, again)
			}
		}
	})
}
