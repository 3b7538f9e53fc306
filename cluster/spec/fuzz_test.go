package spec

import (
	"strings"
	"testing"
)

// FuzzParse: no input panics, and a file that was printed is read as it was.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("kind: InitConfiguration\na: &a {b: 1}\nc: {<<: *a, d: 2020-01-01, e: 1e3, f: 0x1F, g: ~}\n"))
	f.Add([]byte("apiVersion: sealer.io/v1\nkind: Cluster\nspec: {masters: {ipList: [1.2.3.4]}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		_ = Validate(file)
		_, _ = file.Cluster.Nodes()
		if err != nil {
			return
		}
		once, err := Print(file)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("f", once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		twice, err := Print(again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%v\n%s\n---- becomes\n%s", err, once, twice)
		}
	})
}

// FuzzParseAddresses: the printed list of what was read is read as the same.
func FuzzParseAddresses(f *testing.F) {
	f.Add("10.0.0.1,10.0.0.3-10.0.0.9:22,[::1]:22")
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ParseAddresses(s)
		if err != nil {
			return
		}
		var words []string
		for _, a := range all {
			word := a.Addr().String()
			if a.Port() != 0 {
				word = a.String()
			}
			words = append(words, word)
		}
		again, err := ParseAddresses(strings.Join(words, ","))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q: %v", words, err)
		}
		for i := range again {
			if again[i] != all[i] {
				t.Fatalf("%v is not %v", again[i], all[i])
			}
		}
	})
}
