package parser_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
)

func TestPredefined(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"OS": "linux", "ARCH": "arm", "VARIANT": "v7", "PLATFORM": "linux/arm/v7",
		"TARGETOS": "linux", "TARGETARCH": "arm", "TARGETVARIANT": "v7", "TARGETPLATFORM": "linux/arm/v7",
	}
	if diff := cmp.Diff(want, parser.Predefined(ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parser.Predefined(ocispec.Platform{OS: "linux", Architecture: "amd64"}); got["PLATFORM"] != "linux/amd64" || got["VARIANT"] != "" {
		t.Errorf("without a variant: %v", got)
	}
}

func TestExpandFrom(t *testing.T) {
	t.Parallel()
	amd64 := ocispec.Platform{OS: "linux", Architecture: "amd64"}
	for text, want := range map[string]string{
		"ARG V=1\nFROM --platform=$PLATFORM k8s:$V\nCOPY $NOPE .\n": "",
		"ARG V\nFROM k8s:$V\n":                "Kubefile:2: FROM: V is not set: give --build-arg V=VALUE, or a default: ARG V=VALUE",
		"ARG V=\nFROM $V\n":                   "Kubefile:2: FROM: $V is empty: give the variable a value, with --build-arg or a default",
		"ARG VERSION=1\nFROM k8s:${VERSIO}\n": "Kubefile:2: FROM: VERSIO is not set: did you mean VERSION?",
		"FROM $A$B:$A\n":                      "Kubefile:1: FROM: A, B is not set: declare it above with ARG A=VALUE, or write ${A:-VALUE}",
	} {
		got, err := parser.ExpandFrom(parse(t, text), parser.Vars{Platform: amd64})
		switch {
		case want != "":
			if err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		case err != nil:
			t.Errorf("%q: %v", text, err)
		case got.Image != "k8s:1" || got.Platform != "linux/amd64":
			t.Errorf("%q: %+v", text, got)
		}
	}
	for want, list := range map[string][]kubefile.Instruction{
		"K:3: FROM: the image is empty: FROM scratch or FROM IMAGE":            {&kubefile.From{At: 3}},
		"K: the file has no FROM: begin it with FROM scratch or FROM IMAGE":    {&kubefile.Arg{At: 1}},
		"K:2: FROM: \"a: a quote is not closed: see the quotes and the ${...}": {&kubefile.From{At: 2, Image: `"a`}},
	} {
		if _, err := parser.ExpandFrom(&kubefile.File{Name: "K", Instructions: list}, parser.Vars{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// The zero escape character means a backslash.
	f := &kubefile.File{Instructions: []kubefile.Instruction{&kubefile.From{Image: `\$a`}}}
	if from, err := parser.ExpandFrom(f, parser.Vars{}); err != nil || from.Image != "$a" {
		t.Errorf("an escaped word of a file made by hand: %+v, %v", from, err)
	}
}

// TestWords has texts at the edges of quoting, of ARG's commas and of JSON.
func TestWords(t *testing.T) {
	t.Parallel()
	pair := func(name, value string) kubefile.Pair { return kubefile.Pair{Name: name, Value: value, Set: true} }
	for text, want := range map[string]kubefile.Instruction{
		"ARG a=1,2,b=3":                    &kubefile.Arg{At: 2, Pairs: []kubefile.Pair{pair("a", "1,2"), pair("b", "3")}},
		"ARG a=1,,b=3":                     &kubefile.Arg{At: 2, Pairs: []kubefile.Pair{pair("a", "1,"), pair("b", "3")}},
		"ARG a=,":                          &kubefile.Arg{At: 2, Pairs: []kubefile.Pair{pair("a", ",")}},
		`ARG a="1,b=2",c=3`:                &kubefile.Arg{At: 2, Pairs: []kubefile.Pair{pair("a", `"1,b=2"`), pair("c", "3")}},
		`ENV "a"=1 'b'=2`:                  &kubefile.Env{At: 2, Pairs: []kubefile.Pair{pair("a", "1"), pair("b", "2")}},
		`CMD [`:                            &kubefile.Cmd{At: 2, Commands: []string{"["}},
		`CMD [[ -f x ]]`:                   &kubefile.Cmd{At: 2, Commands: []string{"[[ -f x ]]"}},
		`CMD  	a`:                          &kubefile.Cmd{At: 2, Commands: []string{"a"}},
		`COPY [ab].yaml c`:                 &kubefile.Copy{At: 2, Sources: []string{"[ab].yaml"}, Dest: "c"},
		`LABEL =a`:                         nil,
		`RUN --mount="type=secret,id=a" x`: &kubefile.Run{At: 2, Command: "x", Mounts: []kubefile.Mount{{Type: "secret", ID: "a"}}},
	} {
		f, err := parser.Parse("Kubefile", strings.NewReader("FROM scratch\n"+text+"\n"))
		if want == nil {
			if err == nil {
				t.Errorf("%s: no error", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, f.Instructions[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestFaultsAtTheEdges has faults at the first character, at a limit, and of
// files with nothing else.
func TestFaultsAtTheEdges(t *testing.T) {
	t.Parallel()
	const long = "a23456789b123456789c123456789d123456789e" // 40 letters
	for _, tc := range []struct{ name, text, want string }{
		{"a long word", "FROM scratch\n" + long + "\n", "Kubefile:2: unknown instruction " + long + ": the instructions are " + strings.Join(kubefile.Keywords(), ", ")},
		{"a longer word", "FROM scratch\n" + long + "f\n", "Kubefile:2: unknown instruction " + long + "...: the instructions are " + strings.Join(kubefile.Keywords(), ", ")},
		{"no blank at first", "FROM scratch\n\u200bCOPY a b\n", "Kubefile:2: unknown instruction \u200bCOPY: it holds the character U+200B, which is no blank: write one in its place"},
		{"delete", "FROM scratch\nCOPYX\x7fY a b\n", "Kubefile:2: unknown instruction COPYX\x7fY: the instructions are " + strings.Join(kubefile.Keywords(), ", ")},
		{"unlike any flag", "FROM scratch\nRUN --security=insecure x\n", "Kubefile:2: RUN: unknown flag --security: RUN takes --mount, --network"},
		{"control at first", "FROM scratch\n\x01COPY a b\n", "Kubefile:2: it holds the character 0x01: save it as UTF-8 text"},
		{"Latin-1 at first", "FROM scratch\n\xf6\n", "Kubefile:2: it is not UTF-8: save it as UTF-8 text"},
		{"from elsewhere", "FROM scratch\nADD --from=x a b\nRUN --from=x y\n", "Kubefile:2: ADD: unknown flag --from: a Kubefile has one stage; copy from the build context\nKubefile:3: RUN: unknown flag --from: RUN takes --mount, --network"},
		{"an empty list", "FROM scratch\nRUN []\n", "Kubefile:2: RUN: the JSON form is no list of strings: write [\"program\", \"argument\"], with double quotes"},
		{"no newline at the end", "FROM scratch\nENV a", "Kubefile:2: ENV: a has no value: ENV name=value ..."},
		{"no name", "FROM scratch\nENV \"\"=1\nARG =1\n", "Kubefile:2: ENV: \"\" is no name for a variable: use letters, digits and _\nKubefile:3: ARG: \"\" is no name for a variable: use letters, digits and _"},
		{"copy twice", "# copy=docker\n# copy=sealer\nFROM scratch\n", "Kubefile:2: the directive copy stands twice: keep one"},
		{"a directive alone", "# copy=docker", "Kubefile: it has no instructions: begin with FROM scratch or FROM IMAGE"},
		{"a heredoc alone", "COPY <<EOF a\nx\n", "Kubefile:1: the heredoc has no end: end it with a line that holds its word alone"},
	} {
		f, err := parser.Parse("Kubefile", strings.NewReader(tc.text))
		if err == nil {
			t.Errorf("%s: no error: %v", tc.name, f)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), "control character", "character"); got != tc.want {
			t.Errorf("%s (-want +got):\n%s", tc.name, cmp.Diff(tc.want, got))
		}
	}
}

func TestLargestKubefile(t *testing.T) {
	t.Parallel()
	text := "FROM scratch\n" + strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", 1<<10)
	text = text[:1<<20]
	if _, err := parser.Parse("Kubefile", strings.NewReader(text)); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	if _, err := parser.Parse("Kubefile", strings.NewReader(text+"\n")); err == nil || !strings.Contains(err.Error(), "larger than 1024 KiB") {
		t.Errorf("1 MiB and a byte: %v", err)
	}
}
