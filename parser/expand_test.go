package parser_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/parser"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	f := parse(t, `ARG VERSION=v1
FROM k8s:${VERSION}-${ARCH}
ARG a=1,b=$a ARCH PORT=80
ENV HOME=/root "GREETING"="hello $a" X='$a'
ENV X=$X-$VERSION MISSING=${NOPE}
LABEL at=$PLATFORM "k$a"=v
COPY bin/$ARCH/${a}* ${DIR:-bin}/$TARGETOS
COPY <<A <<'B' etc/
$a "$PORT"
A
$a "$PORT"
B
RUN echo $a
APPCMDS n$a ["echo $a ${b}"]
APP n$a local://charts/$ARCH
LAUNCH n$a
KUBEVERSION >=$VERSION
`)
	got, err := parser.Expand(f, parser.Vars{
		BuildArgs: map[string]string{"VERSION": "v2", "PROT": "81"},
		Platform:  ocispec.Platform{OS: "linux", Architecture: "arm64"},
		BaseEnv:   map[string]string{"FROMBASE": "yes"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []kubefile.Instruction{
		&kubefile.Arg{At: 1, Pairs: []kubefile.Pair{{Name: "VERSION", Value: "v2", Set: true}}},
		&kubefile.From{At: 2, Image: "k8s:v2-arm64"},
		&kubefile.Arg{At: 3, Pairs: []kubefile.Pair{{Name: "a", Value: "1", Set: true}, {Name: "b", Value: "1", Set: true}, {Name: "ARCH", Value: "arm64", Set: true}, {Name: "PORT", Value: "80", Set: true}}},
		&kubefile.Env{At: 4, Pairs: []kubefile.Pair{{Name: "HOME", Value: "/root", Set: true}, {Name: "GREETING", Value: "hello 1", Set: true}, {Name: "X", Value: "$a", Set: true}}},
		&kubefile.Env{At: 5, Pairs: []kubefile.Pair{{Name: "X", Value: "$a-v2", Set: true}, {Name: "MISSING", Set: true}}},
		&kubefile.Label{At: 6, Pairs: []kubefile.Pair{{Name: "at", Value: "linux/arm64", Set: true}, {Name: "k1", Value: "v", Set: true}}},
		&kubefile.Copy{At: 7, Sources: []string{"bin/arm64/1*"}, Dest: "bin/linux"},
		&kubefile.Copy{At: 8, Sources: []string{"<<A", "<<'B'"}, Dest: "etc/", Heredocs: []kubefile.Heredoc{{Name: "A", Content: "1 \"80\"\n", Expand: true}, {Name: "B", Content: "$a \"$PORT\"\n"}}},
		&kubefile.Run{At: 13, Command: "echo $a"},
		&kubefile.AppCmds{At: 14, Name: "n1", Commands: []string{"echo $a ${b}"}},
		&kubefile.App{At: 15, Kind: "APP", Name: "n1", Sources: []string{"local://charts/arm64"}},
		&kubefile.Launch{At: 16, Apps: []string{"n1"}},
		&kubefile.KubeVersion{At: 17, Range: ">=v2"},
	}
	if diff := cmp.Diff(want, got.Instructions); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, w := range got.Warnings {
		warnings = append(warnings, w.Error())
	}
	if diff := cmp.Diff([]string{
		"Kubefile:5: ENV: NOPE is not set, and empty here: declare it above with ARG NOPE=VALUE, or write ${NOPE:-VALUE}",
		"Kubefile: build argument PROT is not used: did you mean PORT?",
	}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestExpandFaults(t *testing.T) {
	t.Parallel()
	f := parse(t, `FROM scratch
ARG VERSION
ARG EMPTY=
COPY etc/$VERSON/x .
COPY $VERSION .
COPY $EMPTY .
COPY ${x .
COPY --chmod=$MODE a b
KUBEVERSION $NEW
APP $N local://x
COPY ${A:?give} .
COPY a ${UP:-../..}
ENV A=${B:?none}
APP "quo ted" local://x
COPY <<EOF file
${C:?
}
EOF
RUN --mount=type=secret,id=$N x
`)
	_, err := parser.Expand(f, parser.Vars{BuildArgs: map[string]string{"MODE": "x"}, BaseArgs: map[string]string{"NEW": "old"}})
	if err == nil {
		t.Fatal("no error")
	}
	want := `Kubefile:4: COPY: VERSON is not set: declare it above with ARG VERSON=VALUE, or write ${VERSON:-VALUE}
Kubefile:5: COPY: VERSION is not set: give --build-arg VERSION=VALUE, or a default: ARG VERSION=VALUE
Kubefile:6: COPY: $EMPTY is empty: give the variable a value, with --build-arg or a default
Kubefile:7: COPY: ${x: a } is missing: see the quotes and the ${...}
Kubefile:8: COPY: MODE is not set: declare it above with ARG MODE=VALUE, or write ${MODE:-VALUE}
Kubefile:9: KUBEVERSION: "old" is no range of versions: such as >=1.22.0 <1.30.0, or 1.22 - 1.27
Kubefile:10: APP: N is not set: declare it above with ARG N=VALUE, or write ${N:-VALUE}
Kubefile:11: COPY: ${A:?give}: A: give: see the quotes and the ${...}
Kubefile:12: COPY: destination ../.. leads out of the rootfs: drop the ..
Kubefile:13: ENV: ${B:?none}: B: none: see the quotes and the ${...}
Kubefile:14: APP: "quo ted" is no name for an application: use letters, digits, '.', '_' and '-'
Kubefile:15: COPY: ${C:?: C: \n: see the quotes and the ${...}
Kubefile:19: RUN: N is not set: declare it above with ARG N=VALUE, or write ${N:-VALUE}`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpandIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	f := parse(t, strings.Repeat("#\n", 3)+"FROM scratch\nCOPY bin/$ARCH bin\n")
	var wg sync.WaitGroup
	for _, arch := range []string{"amd64", "arm64", "s390x", "ppc64le"} {
		wg.Go(func() {
			got, err := parser.Expand(f, parser.Vars{Platform: ocispec.Platform{OS: "linux", Architecture: arch}})
			if err != nil || got.Instructions[1].(*kubefile.Copy).Sources[0] != "bin/"+arch {
				t.Errorf("%s: %v", arch, err)
			}
		})
	}
	wg.Wait()
}
