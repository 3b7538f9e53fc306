package parser_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
)

// whole uses the whole language once.
const whole = `# syntax=docker/dockerfile:1
ARG BASE=kubernetes:v1.22.15
FROM --platform=$TARGETPLATFORM ${BASE} AS base
ARG a=1,b=2 c
maintainer A. Maintainer <a@example.org>
ENV NAME="John \"D\"" OTHER=a\ b
ENV OLD  the rest of it
LABEL "com.example.vendor"="ACME" x=y
COPY imageList manifests
COPY --chmod=0755 --chown=1000:1000 \
     --exclude=*.md \
  # a comment inside
  bin/helm bin/kubectl bin/
COPY ["a b", "dir"]
COPY <<EOF etc/motd
welcome
EOF
ADD --checksum=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef https://example.org/a.tgz charts/
RUN --mount=type=secret,id=token,required --network=none mkdir cni && echo "[x]" > cni/y
RUN <<'SH'
echo one
SH
RUN ["/bin/echo", "a, b"]
CMD kubectl create -f etc/install.yaml && kubectl create -f etc/redirect-registry.yaml
APP nginx local://charts/nginx https://example.org/x.yaml
APPCMDS nginx ["helm install nginx .", "echo done, really"]
APPENV nginx REPLICAS=3
CNI calico local://calico.yaml
CSI alibaba-csi-plugin local://csi
KUBEVERSION >=1.19.8 <1.30.0
`

func parse(t *testing.T, text string) *kubefile.File {
	t.Helper()
	f, err := parser.Parse("Kubefile", strings.NewReader(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return f
}

func TestParseWholeLanguage(t *testing.T) {
	t.Parallel()
	f := parse(t, whole)
	want := []kubefile.Instruction{
		&kubefile.Arg{At: 2, Pairs: []kubefile.Pair{{Name: "BASE", Value: "kubernetes:v1.22.15", Set: true}}},
		&kubefile.From{At: 3, Platform: "$TARGETPLATFORM", Image: "${BASE}", Alias: "base"},
		&kubefile.Arg{At: 4, Pairs: []kubefile.Pair{{Name: "a", Value: "1", Set: true}, {Name: "b", Value: "2", Set: true}, {Name: "c", Value: "", Set: false}}},
		&kubefile.Maintainer{At: 5, Name: "A. Maintainer <a@example.org>"},
		&kubefile.Env{At: 6, Pairs: []kubefile.Pair{{Name: "NAME", Value: `"John \"D\""`, Set: true}, {Name: "OTHER", Value: `a\ b`, Set: true}}},
		&kubefile.Env{At: 7, Pairs: []kubefile.Pair{{Name: "OLD", Value: "the rest of it", Set: true}}},
		&kubefile.Label{At: 8, Pairs: []kubefile.Pair{{Name: `"com.example.vendor"`, Value: `"ACME"`, Set: true}, {Name: "x", Value: "y", Set: true}}},
		&kubefile.Copy{At: 9, Sources: []string{"imageList"}, Dest: "manifests"},
		&kubefile.Copy{At: 10, Sources: []string{"bin/helm", "bin/kubectl"}, Dest: "bin/", Chmod: "0755", Chown: "1000:1000", Exclude: []string{"*.md"}},
		&kubefile.Copy{At: 14, Sources: []string{"a b"}, Dest: "dir"},
		&kubefile.Copy{At: 15, Sources: []string{"<<EOF"}, Dest: "etc/motd", Heredocs: []kubefile.Heredoc{{Name: "EOF", Content: "welcome\n", Expand: true}}},
		&kubefile.Copy{At: 18, Add: true, Sources: []string{"https://example.org/a.tgz"}, Dest: "charts/", Checksum: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		&kubefile.Run{At: 19, Command: `mkdir cni && echo "[x]" > cni/y`, Network: "none", Mounts: []kubefile.Mount{{Type: "secret", ID: "token", Required: true}}},
		&kubefile.Run{At: 20, Command: "<<'SH'", Heredocs: []kubefile.Heredoc{{Name: "SH", Content: "echo one\n"}}},
		&kubefile.Run{At: 23, Args: []string{"/bin/echo", "a, b"}},
		&kubefile.Cmd{At: 24, Commands: []string{"kubectl create -f etc/install.yaml && kubectl create -f etc/redirect-registry.yaml"}},
		&kubefile.App{At: 25, Kind: "APP", Name: "nginx", Sources: []string{"local://charts/nginx", "https://example.org/x.yaml"}},
		&kubefile.AppCmds{At: 26, Name: "nginx", Commands: []string{"helm install nginx .", "echo done, really"}},
		&kubefile.AppEnv{At: 27, Name: "nginx", Pairs: []kubefile.Pair{{Name: "REPLICAS", Value: "3", Set: true}}},
		&kubefile.App{At: 28, Kind: "CNI", Name: "calico", Sources: []string{"local://calico.yaml"}},
		&kubefile.App{At: 29, Kind: "CSI", Name: "alibaba-csi-plugin", Sources: []string{"local://csi"}},
		&kubefile.KubeVersion{At: 30, Range: ">=1.19.8 <1.30.0"},
	}
	if diff := cmp.Diff(want, f.Instructions); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
}

func TestCommandsAreNeverSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`CMD a, b && c`:                 {"a, b && c"},
		`CMD ["a, b", "c \"d\" && e"]`:  {"a, b", `c "d" && e`},
		`CMD [ -f x ] && echo "a", "b"`: {`[ -f x ] && echo "a", "b"`},
		"CMD a \\\n  b":                 {"a   b"},
		`CMD [ "a" ]`:                   {"a"},
	} {
		f := parse(t, "FROM scratch\n"+text)
		if diff := cmp.Diff(want, f.Instructions[1].(*kubefile.Cmd).Commands); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestDirectives(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text   string
		docker bool
		escape rune
	}{
		"none":         {"FROM scratch\n", false, '\\'},
		"docker":       {"# copy=docker\nFROM scratch\n", true, '\\'},
		"before":       {"# copy=docker\n# escape=`\nFROM scratch\nCOPY a `\n b\n", true, '`'},
		"after":        {"# escape=`\n# copy=docker\nFROM scratch\nCOPY a `\n b\n", true, '`'},
		"comment":      {"# a comment\n# copy=docker\nFROM scratch\n", false, '\\'},
		"crlf and bom": {"\ufeff# copy=docker\r\nFROM scratch\r\nCOPY a \\\r\n b\r\n", true, '\\'},
	} {
		f := parse(t, tc.text)
		if f.DockerCopy != tc.docker || f.Escape != tc.escape {
			t.Errorf("%s: copy=docker %v, escape %q", name, f.DockerCopy, f.Escape)
		}
		if c, ok := f.Instructions[len(f.Instructions)-1].(*kubefile.Copy); ok && (c.Dest != "b" || len(c.Sources) != 1) {
			t.Errorf("%s: COPY reads as %+v", name, c)
		}
	}
}

// TestFaults has a file for each fault; every line of want must be reported,
// and nothing else.
func TestFaults(t *testing.T) {
	t.Parallel()
	const from = "FROM scratch\n"
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "Kubefile: it has no instructions: begin with FROM scratch or FROM IMAGE"},
		{"comments only", "# nothing\n\n", "Kubefile: it has no instructions: begin with FROM scratch or FROM IMAGE"},
		{"no FROM", "COPY a b\n", "Kubefile:1: COPY: it stands before FROM: begin the file with FROM scratch or FROM IMAGE"},
		{"two FROM", from + from, "Kubefile:2: FROM: it stands in line 1 already: keep one"},
		{"misspelt", from + "COPPY a b\nAPPCMD x [\"y\"]\nLUNCH a\n", "Kubefile:2: unknown instruction COPPY: did you mean COPY?\nKubefile:3: unknown instruction APPCMD: did you mean APPCMDS?\nKubefile:4: unknown instruction LUNCH: did you mean LAUNCH?"},
		{"misspelt flag", from + "COPY --chmd=755 a b\nCOPY --from=x a b\nFROM --platfrom=x y\nCMD --x y\n", "Kubefile:2: COPY: unknown flag --chmd: did you mean --chmod?\nKubefile:3: COPY: unknown flag --from: a Kubefile has one stage; copy from the build context\nKubefile:4: FROM: unknown flag --platfrom: did you mean --platform?\nKubefile:5: CMD: unknown flag --x: CMD takes no flags"},
		{"flag twice", from + "COPY --chmod=755 --chmod=644 a b\n", "Kubefile:2: COPY: flag --chmod stands twice: keep one"},
		{"flag without value", from + "COPY --chmod a b\n", "Kubefile:2: COPY: flag --chmod has no value: write --chmod=VALUE"},
		{"Dockerfile's", from + "WORKDIR /x\nEXPOSE 80\n", "Kubefile:2: unknown instruction WORKDIR: a ClusterImage has no working directory; write cd DIR && ... in RUN and CMD\nKubefile:3: unknown instruction EXPOSE: it means nothing in a ClusterImage; remove it"},
		{"no arguments", from + "ARG\nENV\nLABEL\nMAINTAINER\nCOPY\nADD\nRUN\nCMD\nAPP\nAPPCMDS\nAPPENV\nCNI\nCSI\nKUBEVERSION\nCMDS\n", `Kubefile:2: ARG: the name is missing: ARG name[=default]
Kubefile:3: ENV: the name and the value are missing: ENV name=value ...
Kubefile:4: LABEL: the name and the value are missing: LABEL name=value ...
Kubefile:5: MAINTAINER: the name is missing: MAINTAINER NAME <MAIL>
Kubefile:6: COPY: it needs a source and a destination: COPY SRC... DEST
Kubefile:7: ADD: it needs a source and a destination: ADD SRC... DEST
Kubefile:8: RUN: the command is missing: RUN COMMAND
Kubefile:9: CMD: the command is missing: CMD COMMAND
Kubefile:10: APP: the application's name is missing: APP NAME SRC...
Kubefile:11: APPCMDS: the application's name is missing: APPCMDS NAME ["c1", "c2"]
Kubefile:12: APPENV: the application's name is missing: APPENV NAME k=v ...
Kubefile:13: CNI: the application's name is missing: CNI NAME SRC...
Kubefile:14: CSI: the application's name is missing: CSI NAME SRC...
Kubefile:15: KUBEVERSION: the range is missing: such as KUBEVERSION >=1.22 <1.30
Kubefile:16: CMDS: the command is missing: CMDS ["c1", "c2"]`},
		{"FROM and LAUNCH alone", "FROM\nLAUNCH\n", "Kubefile:1: FROM: the image is missing: FROM scratch or FROM IMAGE\nKubefile:2: LAUNCH: the applications are missing: LAUNCH NAME..."},
		{"too many", "FROM a b\n", "Kubefile:1: FROM: it has 2 arguments: FROM scratch or FROM IMAGE"},
		{"one argument", from + "COPY a\nENV a\nENV a=b c\nAPP x\nAPPENV x\n", "Kubefile:2: COPY: it needs a source and a destination: COPY SRC... DEST\nKubefile:3: ENV: a has no value: ENV name=value ...\nKubefile:4: ENV: c has no value: quote values that hold spaces: ENV name=value ...\nKubefile:5: APP: application x has no source: APP x local://PATH\nKubefile:6: APPENV: the variables are missing: APPENV x k=v ..."},
		{"bad JSON", from + "COPY [\"a\", \"b\"\nCMD ['a', 'b']\nCMDS a\nAPPCMDS x y\nRUN [\"a\", 1]\nCMD [\"a\", 1]\nCOPY [\"a\", 1]\nCMDS [\"\"]\nCMDS []\n", `Kubefile:2: COPY: it is no JSON list of strings: write ["SRC", "DEST"], with double quotes
Kubefile:3: CMD: it is no JSON list of strings: write ["c1", "c2"], with double quotes
Kubefile:4: CMDS: it is no JSON list of strings: write ["c1", "c2"], with double quotes
Kubefile:5: APPCMDS: it is no JSON list of strings: write ["c1", "c2"], with double quotes
Kubefile:6: RUN: the JSON form is no list of strings: write ["program", "argument"], with double quotes
Kubefile:7: CMD: it is no JSON list of strings: write ["c1", "c2"], with double quotes
Kubefile:8: COPY: it is no JSON list of strings: write ["SRC", "DEST"], with double quotes
Kubefile:9: CMDS: command 1 is empty: drop it
Kubefile:10: CMDS: it stands in line 9 already: keep one
Kubefile:10: CMDS: the command is missing: CMDS ["c1", "c2"]`},
		{"open quotes", from + "COPY \"a b\nENV a=\"b\nARG a='b\nLABEL \"a\nAPP x \"y\nLAUNCH 'a\nCOPY --chmod=\"7 a b\n", "Kubefile:2: COPY: a quote is not closed: close it\nKubefile:3: ENV: a quote is not closed: close it\nKubefile:4: ARG: a quote is not closed: close it\nKubefile:5: LABEL: a quote is not closed: close it\nKubefile:6: APP: a quote is not closed: close it\nKubefile:7: LAUNCH: a quote is not closed: close it\nKubefile:8: COPY: a quote is not closed: close it"},
		{"open heredoc", from + "COPPY x\nCOPY <<EOF a\nx\n", "Kubefile:2: unknown instruction COPPY: did you mean COPY?\nKubefile:3: the heredoc has no end: end it with a line that holds its word alone"},
		{"bad values", from + "COPY --chmod=9 a b\nCOPY --chown=a:b:c a b\nCOPY --checksum=x a b\nCOPY a ../b\nKUBEVERSION new\nRUN --network=bridge x\nRUN --mount=type=bind,source=a x\nRUN --mount=type=cache x\nRUN --mount=type=secret x\nARG 1=2\nAPP a/b local://x\nAPP b x\nAPP c local://\n", `Kubefile:2: COPY: --chmod=9 is no octal mode: such as --chmod=0755
Kubefile:3: COPY: --chown=a:b:c names no owner: USER[:GROUP], such as --chown=1000:1000
Kubefile:4: COPY: --checksum=x is no checksum: --checksum=sha256: and 64 hexadecimal digits
Kubefile:4: COPY: --checksum needs exactly one source, an http(s) URL or a chart: split the instruction
Kubefile:5: COPY: destination ../b leads out of the rootfs: drop the ..
Kubefile:6: KUBEVERSION: "new" is no range of versions: such as >=1.22.0 <1.30.0, or 1.22 - 1.27
Kubefile:7: RUN: --network=bridge is unknown: use host or none
Kubefile:8: RUN: --mount=type=bind is not supported: only type=secret is; COPY brings other files
Kubefile:9: RUN: --mount=type=cache is not supported: only type=secret is; COPY brings other files
Kubefile:10: RUN: --mount=type=secret has no id: add id=NAME, and give --secret id=NAME,src=FILE to sealer build
Kubefile:11: ARG: "1" is no name for a variable: use letters, digits and _
Kubefile:12: APP: "a/b" is no name for an application: use letters, digits, '.', '_' and '-'
Kubefile:13: APP: source x has no scheme: write local://x, http://..., https://..., or for a chart oci://... or repo+https://...
Kubefile:14: APP: a source local:// has no path: local://PATH, relative to the build context`},
		{"duplicates", from + "APP a local://x\nCNI a local://y\nLAUNCH a a\nLAUNCH a\n", "Kubefile:3: CNI: application a stands in line 2 already: give it another name, or put the sources into one instruction\nKubefile:4: LAUNCH: application a stands twice: keep one\nKubefile:5: LAUNCH: it stands in line 4 already: keep one"},
		{"LAUNCH excludes", from + "APP a local://x\nCMD b\nLAUNCH a\nCMDS [\"c\"]\n", "Kubefile:3: CMD: LAUNCH in line 4 excludes it: put the command into an APPCMDS, or drop LAUNCH\nKubefile:5: CMDS: LAUNCH in line 4 excludes it: put the command into an APPCMDS, or drop LAUNCH"},
		{"NUL", from + "COPY a\x00 b\n", "Kubefile:2: it holds the control character 0x00: save it as UTF-8 text"},
		{"UTF-16", "\xff\xfeF\x00R\x00", "Kubefile:1: it is UTF-16: save it as UTF-8"},
		{"Latin-1", from + "MAINTAINER J\xf6rg\n", "Kubefile:2: it is not UTF-8: save it as UTF-8 text"},
		{"10 MB", strings.Repeat("COPY a b\n", 10<<20/9), "Kubefile: it is larger than 1024 KiB: a Kubefile is text; is this the right file?"},
		{"mounts", from + "RUN --mount=id=a,typ=secret x\nRUN --mount=source=a,type=bind x\nRUN --mount=type=secret,id=a,target=/etc/x x\nRUN --mount=type=secret,id=a,target=/run/../etc/x x\nRUN --mount=type=secret,id=a,required=maybe x\n", `Kubefile:2: RUN: --mount: unknown option typ: did you mean type?
Kubefile:3: RUN: --mount=type=bind is not supported: only type=secret is; COPY brings other files
Kubefile:4: RUN: --mount: target=/etc/x lies neither in /run nor in /tmp: leave it out: the secret is at /run/secrets/ID then
Kubefile:5: RUN: --mount: target=/run/../etc/x lies neither in /run nor in /tmp: leave it out: the secret is at /run/secrets/ID then
Kubefile:6: RUN: --mount: required=maybe is neither true nor false: write required`},
		{"empty in quotes", from + "CMD \"\"\nRUN ''\nRUN [\"\"]\nCMDS [\" \"]\n", "Kubefile:2: CMD: command 1 is empty: drop it\nKubefile:3: RUN: the command is missing: RUN COMMAND\nKubefile:4: RUN: the command is missing: RUN COMMAND\nKubefile:5: CMDS: command 1 is empty: drop it"},
		{"blanks of the web", "FROM\u00a0scratch\nCOPY\u200b a b\n", "Kubefile:1: unknown instruction FROM\u00a0scratch: it holds the character U+00A0, which is no blank: write one in its place\nKubefile:2: unknown instruction COPY\u200b: it holds the character U+200B, which is no blank: write one in its place"},
		{"a continuation alone", "\\\n", "Kubefile: the file has no FROM: begin it with FROM scratch or FROM IMAGE"},
		{"escape", "# escape=x\n# escape=`\nFROM scratch\n", "Kubefile:1: directive escape=x is unknown: write # escape=` or drop it\nKubefile:2: the directive escape stands twice: keep one"},
		{"bad directive", "# copy=podman\nFROM scratch\n", "Kubefile:1: directive copy=podman is unknown: write # copy=docker, or drop it"},
	} {
		f, err := parser.Parse("Kubefile", strings.NewReader(tc.text))
		if err == nil {
			t.Errorf("%s: no error", tc.name)
			continue
		}
		if f != nil && f.From() == nil && strings.HasPrefix(tc.text, "FROM ") {
			t.Errorf("%s: the rest has no FROM", tc.name)
		}
		if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		var e *kubefile.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %T holds no *kubefile.Error", tc.name, err)
		}
	}
}

// TestParseFaultyKeepsTheRest looks for what a caller may judge of a file that
// has faults.
func TestParseFaultyKeepsTheRest(t *testing.T) {
	t.Parallel()
	f, err := parser.Parse("Kubefile", strings.NewReader("FROM a b\nCOPPY a b\nCOPY --chmod=9 a b\nCOPY a b\n\"quoted\"\nAPP \"quoted\" local://x\nLAUNCH 'quoted'\n"))
	if err == nil || f == nil {
		t.Fatalf("Parse = %v, %v", f, err)
	}
	var got []string
	for _, in := range f.Instructions {
		got = append(got, in.Keyword())
	}
	if diff := cmp.Diff([]string{"FROM", "COPY", "APP", "LAUNCH"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManyFaultsEnd(t *testing.T) {
	t.Parallel()
	_, err := parser.Parse("Kubefile", strings.NewReader("FROM scratch\n"+strings.Repeat("ENV a=b c\n", 5000)))
	if err == nil || !strings.Contains(err.Error(), "too many errors") {
		t.Fatalf("Parse = %v", err)
	}
}

func FuzzFormat(f *testing.F) {
	f.Add(whole)
	f.Add("# escape=`\n# copy=docker\nFROM scratch\nCOPY a `\n b\n")
	f.Add("FROM scratch\nCMD [\"a\"]\nLAUNCH a b\nENV a b c\nCMD [ -f x ]\n")
	f.Fuzz(func(t *testing.T, text string) {
		one, err := parser.Parse("Kubefile", strings.NewReader(text))
		if err != nil {
			return
		}
		printed := one.String()
		two, err := parser.Parse("Kubefile", strings.NewReader(printed))
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", text, printed, err)
		}
		clear := cmp.Transformer("line", func(kubefile.At) int { return 0 })
		if diff := cmp.Diff(one, two, clear); diff != "" {
			t.Fatalf("%q is printed as %q:\n%s", text, printed, diff)
		}
	})
}
